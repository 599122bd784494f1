// What one thread of control code costs: each operation some times between two readings of the clock, in the elected thread of a warp, as
// the threads that issue copies and multiplications run. Told is the slope between 8 and 24 of them, medians of 64 passes.
// docs/design/clock.md says what an H200 answered. Machine code: nvdisasm -hex, whose bits 105 to 108 are the cycles until the next issue.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -run control.cu
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

constexpr int PASSES = 64;

#define DEVICE __device__ __forceinline__

DEVICE int64_t now() {
  int64_t cycles;
  asm volatile("mov.u64 %0, %clock64;" : "=l"(cycles)::"memory");
  return cycles;
}

struct State {
  uint32_t a, b, bar, at;
  uint64_t w, p, q;
};

#define OP(NAME, ...) \
  struct NAME { static constexpr const char* name = #NAME; static DEVICE void run(State& s) { asm volatile(__VA_ARGS__); } };
// A jump back that is never taken, behind whatever makes %0: nothing moves across it.
#define JUMP "xor.b32 %0, %0, %1; setp.eq.u32 p, %0, 99; @p bra again%=; }"
#define AGAIN "{ .reg .pred p; .reg .u32 c; again%=: .pragma \"nounroll\"; "
#define LOOP(BODY) "{ .reg .pred p; .reg .u32 i, at; .reg .f32 f, g; mov.u32 i, 0; mov.f32 g, 0f00000000; mov.u32 at, %2; again%=: .pragma \"nounroll\"; " \
                   BODY " add.u32 i, i, 1; setp.lt.u32 p, i, %1; @p bra again%=; }"

OP(nothing, "")
OP(jump, AGAIN JUMP : "+r"(s.a) : "r"(s.b))
OP(add_and_jump, AGAIN "mul.lo.u32 c, %0, %1; add.u32 %0, %0, c; " JUMP : "+r"(s.a) : "r"(s.b))
OP(special_register_and_jump, AGAIN "mov.u32 c, %%smid; add.u32 %0, %0, c; " JUMP : "+r"(s.a) : "r"(s.b))
OP(loop_of_16, LOOP("xor.b32 %0, %0, i;") : "+r"(s.a) : "r"(s.b), "r"(s.at))
OP(loop_of_16_loads_and_fmas, LOOP("ld.shared.f32 f, [at]; add.u32 at, at, 4; fma.rn.f32 g, f, f, g; mov.b32 %0, g;") : "+r"(s.a) : "r"(s.b), "r"(s.at))
OP(load, "ld.global.u64 %0, [%0];" : "+l"(s.p))
OP(load_from_l2, "ld.global.cg.u64 %0, [%0];" : "+l"(s.p))
OP(store_and_load, "st.global.u64 [%1], %0; ld.global.u64 %0, [%0];" : "+l"(s.p) : "l"(s.q))
OP(clock_and_store, "{ .reg .u64 c; mov.u64 c, %%clock64; st.global.u64 [%0], c; add.u64 %0, %0, 8; }" : "+l"(s.q))
OP(timer_and_store, "{ .reg .u64 c; mov.u64 c, %%globaltimer; st.global.u64 [%0], c; add.u64 %0, %0, 8; }" : "+l"(s.q))
OP(try_wait, "{ .reg .pred done; again%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 1; @!done bra again%=; }" ::"r"(s.bar))
OP(test_wait, "{ .reg .pred done; again%=: mbarrier.test_wait.parity.shared::cta.b64 done, [%0], 1; @!done bra again%=; }" ::"r"(s.bar))  // behind a YIELD
OP(copy, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];" ::"r"(s.bar + 64), "l"(s.p), "r"(s.bar + 8) : "memory")

template <class Op, int COUNT>
__global__ void __launch_bounds__(64) ask(int64_t* cycles, uint64_t* memory, uint32_t b) {
  __shared__ alignas(16) uint64_t space[64];
  const volatile uint64_t* zeros = memory + 1024 + threadIdx.x;  // so that nothing is known to be the same in all threads
  const uint32_t bar = (uint32_t)__cvta_generic_to_shared(space) + zeros[0];
  const uint64_t p = (uint64_t)(memory + 16) + zeros[64];
  State s{(uint32_t)zeros[128], b + (uint32_t)zeros[192], bar, bar + 256, zeros[256], p, p + zeros[320]};
  if (threadIdx.x == 0) {
    *(uint64_t*)p = p;
    for (int i = 0; i < 2; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar + 8 * i) : "memory");
  }
  __syncthreads();
  uint32_t elected = 0;
  if (threadIdx.x / 32 == 1) asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  if (elected) {
#pragma unroll 1
    for (int pass = 0; pass < PASSES; pass++) {
      State t = s;
      int64_t begin = now();
#pragma unroll
      for (int i = 0; i < COUNT; i++) Op::run(t);
      cycles[pass] = now() - begin;
      memory[0] = t.a + t.w + t.p + t.q;
    }
  }
  __syncthreads();
}

int64_t* cycles;
uint64_t* memory;

template <class Op, int COUNT>
int64_t median(uint32_t b) {
  std::vector<int64_t> v(PASSES);
  for (int i = 0; i < 2; i++) ask<Op, COUNT><<<1, 64>>>(cycles, memory, b);
  cudaMemcpy(v.data(), cycles, v.size() * 8, cudaMemcpyDeviceToHost);
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

template <class Op>
void tell(uint32_t b = 3) {
  int64_t few = median<Op, 8>(b), many = median<Op, 24>(b);
  printf("%-28s %7.2f cycles each (1: %lld, 8: %lld, 24: %lld)\n", Op::name, (many - few) / 16.0, (long long)median<Op, 1>(b), (long long)few, (long long)many);
}

int main() {
  cudaMalloc(&cycles, PASSES * 8);
  cudaMalloc(&memory, 1 << 16);
  cudaMemset(memory, 0, 1 << 16);
  tell<nothing>(), tell<jump>(), tell<add_and_jump>(), tell<special_register_and_jump>(), tell<loop_of_16>(16), tell<loop_of_16_loads_and_fmas>(16);
  tell<load>(), tell<load_from_l2>(), tell<store_and_load>(), tell<clock_and_store>(), tell<timer_and_store>(), tell<try_wait>(), tell<test_wait>(), tell<copy>();
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
