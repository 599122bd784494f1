// C[M,N] = relu(A[M,K] * B[N,K]^T + bias[N]), bf16 in and out, float32 accumulator in Tensor Memory.
//
// One CTA has six warps: 0-3 epilogue (warp w owns TMEM lanes 32w..32w+31), 4 TMA producer, 5 MMA. It is persistent: it takes
// every gridDim.x-th 128 x BN tile. Two accumulators of BN columns each let the MMA warp fill one while the epilogue drains the other.
//
//   full[s]  / empty[s]     stage s of A and B is in shared memory     / has been read by the tensor core
//   ready[a] / drained[a]   accumulator a is complete                  / has been read by all 128 epilogue threads
//
// M is a multiple of 128, N of BN, K of 64. Tensor maps: bf16, 128-byte swizzle, box 64 x 128 (inner x outer) for A and C, 64 x BN for B.
//
// `make examples` compiles it (nvcc 13.0, -ptx -arch=sm_100a -std=c++17 -lineinfo): gemm.ptx and, with -DRELEASE_TOO_EARLY, gemm_broken.ptx.
// With RELEASE_TOO_EARLY the epilogue gives its accumulator back before its last tcgen05.ld is known to be done.
//
// The tests of the clock have two builds as deep as shared memory allows: -DBN=256 -DSTAGES=4 (four stages of 48 KiB and 32 KiB to stage
// C) with -DACCUMULATORS=2 and 1. With one, main loop and epilogue take turns: it is given back when the tile's last store is issued.
#include <cuda.h>
#include <cuda_bf16.h>
#include <stdint.h>

#ifndef BN
#define BN 128
#define STAGES 3
#define ACCUMULATORS 2
#endif

constexpr int BM = 128, BK = 64, STAGED = 128;  // C is staged and stored 128 columns at a time
constexpr int TILE_BYTES = BM * BK * 2, STAGE_BYTES = TILE_BYTES + BN * BK * 2, HALF_BYTES = BM * 64 * 2;
constexpr uint32_t IDESC = 1 << 4 | 1 << 7 | 1 << 10 | (BN >> 3) << 17 | (BM >> 4) << 24;  // f32 = bf16 * bf16, K-major, 128 x 128

#define DEVICE __device__ __forceinline__

DEVICE uint32_t smem(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

DEVICE bool elect_one() {
  uint32_t elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected;
}

DEVICE void mbarrier_init(uint32_t bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

DEVICE void mbarrier_arrive(uint32_t bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }

DEVICE void mbarrier_arrive_expect(uint32_t bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

DEVICE void mbarrier_wait(uint32_t bar, uint32_t parity) {
  asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" ::"r"(bar),
               "r"(parity)
               : "memory");
}

DEVICE void tma_load(uint32_t dst, const CUtensorMap* map, int x, int y, uint32_t bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(dst),
               "l"(map), "r"(x), "r"(y), "r"(bar)
               : "memory");
}

DEVICE void tma_store(const CUtensorMap* map, int x, int y, uint32_t src) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y), "r"(src)
               : "memory");
}

DEVICE void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
DEVICE void store_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
DEVICE void store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
DEVICE void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
DEVICE void epilogue_sync() { asm volatile("bar.sync 1, 128;" ::: "memory"); }

// K-major operand in shared memory: 128-byte swizzle, 8 rows are 1024 bytes apart.
DEVICE uint64_t operand(uint32_t address) {
  return (uint64_t)((address & 0x3FFFF) >> 4) | (uint64_t)(1024 >> 4) << 32 | 1ull << 46 | 2ull << 61;
}

DEVICE void mma(uint32_t d, uint64_t a, uint64_t b, uint32_t accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" ::"r"(d), "l"(a), "l"(b),
               "r"(IDESC), "r"(accumulate)
               : "memory");
}

DEVICE void commit(uint32_t bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
}

#define R4(v, i) "=r"(v[i]), "=r"(v[i + 1]), "=r"(v[i + 2]), "=r"(v[i + 3])
#define W4(v, i) "+r"(v[i]), "+r"(v[i + 1]), "+r"(v[i + 2]), "+r"(v[i + 3])

DEVICE void tmem_load(uint32_t* v, uint32_t taddr) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
      : R4(v, 0), R4(v, 4), R4(v, 8), R4(v, 12), R4(v, 16), R4(v, 20), R4(v, 24), R4(v, 28)
      : "r"(taddr));
}

// The registers pass through, so that nothing reads them before the wait.
DEVICE void tmem_wait(uint32_t* v) {
  asm volatile("tcgen05.wait::ld.sync.aligned;"
               : W4(v, 0), W4(v, 4), W4(v, 8), W4(v, 12), W4(v, 16), W4(v, 20), W4(v, 24), W4(v, 28)::"memory");
}

DEVICE uint32_t pack(float low, float high) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<uint32_t*>(&pair);
}

extern "C" __global__ void __launch_bounds__(192) gemm(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                                                       const __grid_constant__ CUtensorMap map_c, const float* __restrict__ bias, int M,
                                                       int N, int K) {
  extern __shared__ __align__(1024) uint8_t stages[];
  __shared__ uint64_t full[STAGES], empty[STAGES], ready[ACCUMULATORS], drained[ACCUMULATORS];
  __shared__ uint32_t slot;
  const int warp = threadIdx.x / 32, tiles_m = M / BM, tiles = tiles_m * (N / BN), steps = K / BK;
  const uint32_t operands = smem(stages), staging = operands + STAGES * STAGE_BYTES;

  if (warp == 4 && elect_one()) {
    for (int s = 0; s < STAGES; s++) {
      mbarrier_init(smem(full + s), 1);
      mbarrier_init(smem(empty + s), 1);
    }
    for (int a = 0; a < ACCUMULATORS; a++) {
      mbarrier_init(smem(ready + a), 1);
      mbarrier_init(smem(drained + a), 128);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (warp == 5) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(smem(&slot)), "n"(ACCUMULATORS * BN) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
  fence_before();
  __syncthreads();
  fence_after();
  const uint32_t tmem = slot;

  if (warp == 4) {  // TMA producer
    if (elect_one()) {
      int s = 0;
      uint32_t phase = 1;
      for (int t = blockIdx.x; t < tiles; t += gridDim.x)
#pragma unroll 1
        for (int k = 0; k < steps; k++) {
          mbarrier_wait(smem(empty + s), phase);
          mbarrier_arrive_expect(smem(full + s), STAGE_BYTES);
          tma_load(operands + s * STAGE_BYTES, &map_a, k * BK, t % tiles_m * BM, smem(full + s));
          tma_load(operands + s * STAGE_BYTES + TILE_BYTES, &map_b, k * BK, t / tiles_m * BN, smem(full + s));
          if (++s == STAGES) s = 0, phase ^= 1;
        }
#pragma unroll 1
      for (int i = 0; i < STAGES; i++) {  // every commit aimed at this CTA's barriers has landed before it exits
        mbarrier_wait(smem(empty + s), phase);
        if (++s == STAGES) s = 0, phase ^= 1;
      }
    }
  } else if (warp == 5) {  // MMA
    if (elect_one()) {
      int s = 0, a = 0;
      uint32_t phase = 0, drained_phase = 1;
      for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
        mbarrier_wait(smem(drained + a), drained_phase);
        fence_after();
#pragma unroll 1
        for (int k = 0; k < steps; k++) {
          mbarrier_wait(smem(full + s), phase);
          fence_after();
          for (int j = 0; j < BK / 16; j++)
            mma(tmem + a * BN, operand(operands + s * STAGE_BYTES + j * 32), operand(operands + s * STAGE_BYTES + TILE_BYTES + j * 32),
                k | j);
          commit(smem(empty + s));
          if (++s == STAGES) s = 0, phase ^= 1;
        }
        commit(smem(ready + a));
        if (++a == ACCUMULATORS) a = 0, drained_phase ^= 1;
      }
    }
  } else {  // epilogue
    int a = 0;
    uint32_t phase = 0;
    const int row = threadIdx.x;
    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
      const int m0 = t % tiles_m * BM, n0 = t / tiles_m * BN;
      mbarrier_wait(smem(ready + a), phase);
      fence_after();
#pragma unroll
      for (int first = 0; first < BN; first += STAGED) {
        if (threadIdx.x == 0) store_wait_read();
        epilogue_sync();  // the staging buffer is free
#pragma unroll
        for (int c = first; c < first + STAGED; c += 32) {
          uint32_t v[32];
          tmem_load(v, tmem + (warp << 21) + a * BN + c);
#ifdef RELEASE_TOO_EARLY
          if (ACCUMULATORS > 1 && c + 32 == BN) {
            fence_before();
            mbarrier_arrive(smem(drained + a));
          }
#endif
          tmem_wait(v);
#ifndef RELEASE_TOO_EARLY
          if (ACCUMULATORS > 1 && c + 32 == BN) {
            fence_before();
            mbarrier_arrive(smem(drained + a));
          }
#endif
#pragma unroll
          for (int j = 0; j < 32; j += 8) {  // eight values are one 16-byte chunk of the 128-byte swizzled staging row
            uint32_t packed[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
              const float2 b = *reinterpret_cast<const float2*>(bias + n0 + c + j + 2 * i);
              packed[i] = pack(fmaxf(__uint_as_float(v[j + 2 * i]) + b.x, 0.0f), fmaxf(__uint_as_float(v[j + 2 * i + 1]) + b.y, 0.0f));
            }
            const int chunk = (c % 64 + j) / 8;
            const uint32_t at = staging + c % STAGED / 64 * HALF_BYTES + row * 128 + ((chunk ^ (row & 7)) << 4);
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
                         : "memory");
          }
        }
        fence_async();
        epilogue_sync();  // the staging buffer is full
        if (threadIdx.x == 0) {
          tma_store(&map_c, n0 + first, m0, staging);
          tma_store(&map_c, n0 + first + 64, m0, staging + HALF_BYTES);
          store_commit();
        }
      }
      if (ACCUMULATORS == 1) {
        fence_before();
        mbarrier_arrive(smem(drained));
      }
      if (++a == ACCUMULATORS) a = 0, phase ^= 1;
    }
    if (threadIdx.x == 0) store_wait();
  }
  __syncwarp();
  fence_before();
  __syncthreads();
  fence_after();
  if (warp == 5) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(tmem), "n"(ACCUMULATORS * BN));
}
