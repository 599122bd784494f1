// What the set-up of a CTA takes, but for tcgen05.alloc: mbarriers, fences and barriers, alone and in the order of a prologue of a pair
// of CTAs. One warp initialises the mbarriers, one arrives later by choice (in place of the allocation), the others arrive at once. A
// probe may have stored three words before, as the traced kernels' does. docs/design/clock.md says what an H200 answered.
//
//   nvcc -arch=sm_90a -std=c++17 -run prologue.cu
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

constexpr int CTAS = 132, WARPS = 6, REPEATS = 9;
enum Barrier { NONE, CLUSTER, CLUSTER_RELAXED };
enum Op { NOTHING, INIT, FENCE_INIT, FENCE_PROXY, FENCE_PROXY_SHARED, FENCE_CLUSTER, FENCE_CTA, SYNC };

#define DEVICE __device__ __forceinline__

DEVICE int64_t now() {
  int64_t cycles;
  asm volatile("mov.u64 %0, %clock64;" : "=l"(cycles)::"memory");
  return cycles;
}

DEVICE bool elected() {
  uint32_t is = 0;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(is));
  return is;
}

DEVICE void init(uint32_t bar, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory"); }

template <Barrier BARRIER>
DEVICE void meet() {
  if (BARRIER == CLUSTER) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  if (BARRIER == CLUSTER_RELAXED) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  if (BARRIER == CLUSTER || BARRIER == CLUSTER_RELAXED) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// `cycles` of a warp and repeat: until it arrives, until it goes on.
template <int INITS, Barrier BARRIER, bool PROBED>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(WARPS * 32) prologue(int64_t* entries, int64_t* cycles, int late) {
  __shared__ uint64_t bars[INITS + 1];
  const uint32_t bar = (uint32_t)__cvta_generic_to_shared(bars);
  const int warp = threadIdx.x / 32, row = (blockIdx.x * WARPS + warp) * REPEATS;
#pragma unroll 1
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    int64_t* entry = entries + 4 * (row + repeat);
    int64_t begin = now();
    if (PROBED && elected()) entry[0] = blockIdx.x, entry[1] = 0, entry[2] = begin = now();
    if (warp == 0 && elected()) {
      for (int i = 0; i < INITS; i++) init(bar + 8 * i, i < INITS / 2 ? 2 : 1);
      if (INITS) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    } else if (warp == 1) {
      while (now() - begin < late) {}
    }
    __syncwarp();
    int64_t arrives = now();
    meet<BARRIER>();
    if (elected()) {
      int64_t over = now();
      if (PROBED) entry[3] = over - entry[2];
      cycles[2 * (row + repeat)] = arrives - begin, cycles[2 * (row + repeat) + 1] = over - begin;
    }
    __syncwarp();
    for (int i = 0; i < 20; i++) __nanosleep(200);
    meet<CLUSTER>();
  }
}

template <Op OP, int COUNT, int INITS>
__global__ void row_of(int64_t* cycles) {
  __shared__ uint64_t bars[COUNT + INITS + 1];
  const uint32_t bar = (uint32_t)__cvta_generic_to_shared(bars);
#pragma unroll 1
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    __syncthreads();
    int64_t begin = now();
#pragma unroll
    for (int i = 0; i < INITS; i++) init(bar + 8 * i, 1);
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      if (OP == INIT) init(bar + 8 * i, 1);
      if (OP == FENCE_INIT) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      if (OP == FENCE_PROXY) asm volatile("fence.proxy.async;" ::: "memory");
      if (OP == FENCE_PROXY_SHARED) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      if (OP == FENCE_CLUSTER) asm volatile("fence.acq_rel.cluster;" ::: "memory");
      if (OP == FENCE_CTA) asm volatile("fence.acq_rel.cta;" ::: "memory");
      if (OP == SYNC) asm volatile("bar.sync 0;" ::: "memory");
    }
    int64_t over = now();
    if (threadIdx.x == 0) cycles[blockIdx.x * REPEATS + repeat] = over - begin;
  }
}

int64_t *entries, *cycles;
std::vector<int64_t> h(2 * CTAS * WARPS * REPEATS);

void tell(const char* what, std::vector<int64_t> v) {
  std::sort(v.begin(), v.end());
  printf("  %s %4lld to %4lld, median %4lld", what, (long long)v[v.size() / 20], (long long)v[v.size() - 1 - v.size() / 20], (long long)v[v.size() / 2]);
}

template <int INITS, Barrier BARRIER, bool PROBED>
void ask(const char* name, int late = 0) {
  for (int i = 0; i < 3; i++) prologue<INITS, BARRIER, PROBED><<<CTAS, WARPS * 32>>>(entries, cycles, late);
  cudaMemcpy(h.data(), cycles, h.size() * 8, cudaMemcpyDeviceToHost);
  printf("%-34s late %4d", name, late);
  for (int first : {1, 0}) {
    std::vector<int64_t> arrives[2], over;
    for (int row = 0; row < CTAS * WARPS; row++)
      for (int repeat = first ? 0 : 1; repeat < (first ? 1 : REPEATS); repeat++) {
        const int64_t* at = &h[2 * (row * REPEATS + repeat)];
        if (row % WARPS < 2) arrives[row % WARPS].push_back(at[0]);
        over.push_back(at[1]);
      }
    tell(first ? "| first: warp 0 arrives" : "| later: warp 0 arrives", arrives[0]);
    tell("warp 1", arrives[1]);
    tell("all over", over);
  }
  printf("\n");
}

template <Op OP, int COUNT, int INITS = 0>
void ask_row(const char* name, int threads = 32) {
  for (int i = 0; i < 3; i++) row_of<OP, COUNT, INITS><<<CTAS, threads>>>(cycles);
  cudaMemcpy(h.data(), cycles, CTAS * REPEATS * 8, cudaMemcpyDeviceToHost);
  std::vector<int64_t> first, later;
  for (int i = 0; i < CTAS * REPEATS; i++) (i % REPEATS ? later : first).push_back(h[i]);
  printf("%2d mbarrier.init, %-28s x %2d, %3d threads", INITS, name, COUNT, threads);
  tell("first", first), tell("later", later);
  printf("\n");
}

// What one CTA of a pair stores into the other's shared memory, and the way back: half of it.
__global__ void __cluster_dims__(2, 1, 1) ping(int64_t* cycles) {
  __shared__ uint64_t bar;
  __shared__ uint32_t word;
  const uint32_t b = (uint32_t)__cvta_generic_to_shared(&bar), w = (uint32_t)__cvta_generic_to_shared(&word), rank = blockIdx.x % 2;
  uint32_t there, at;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(b), "r"(rank ^ 1));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(w), "r"(rank ^ 1));
  if (threadIdx.x == 0) init(b, 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  meet<CLUSTER>();
  if (threadIdx.x == 0)
#pragma unroll 1
    for (int repeat = 0; repeat < REPEATS; repeat++) {
      int64_t begin = now();
      for (int side = 0; side < 2; side++) {
        if (rank == side) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(at), "r"(1), "r"(there) : "memory");
        else {
          asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4;" ::"r"(b) : "memory");
          asm volatile("{ .reg .pred done; again%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again%=; }" ::"r"(b), "r"(repeat & 1) : "memory");
        }
      }
      cycles[blockIdx.x * REPEATS + repeat] = now() - begin;
    }
  __syncwarp();
  meet<CLUSTER>();
}

void ask_ping() {
  for (int i = 0; i < 3; i++) ping<<<CTAS, 32>>>(cycles);
  cudaMemcpy(h.data(), cycles, CTAS * REPEATS * 8, cudaMemcpyDeviceToHost);
  std::vector<int64_t> v;
  for (int i = 0; i < CTAS * REPEATS; i++)
    if (i / REPEATS % 2 == 0 && i % REPEATS > 1) v.push_back(h[i]);
  printf("st.async there and back"), tell("", v), printf("\n");
}

int main() {
  cudaMalloc(&entries, h.size() * 16);
  cudaMalloc(&cycles, h.size() * 8);
  ask_row<NOTHING, 1>("nothing");
  ask_row<INIT, 1>("mbarrier.init"), ask_row<INIT, 15>("mbarrier.init"), ask_row<INIT, 30>("mbarrier.init");
  ask_row<FENCE_INIT, 1>("fence.mbarrier_init"), ask_row<FENCE_INIT, 4>("fence.mbarrier_init");
  ask_row<FENCE_PROXY, 1>("fence.proxy.async"), ask_row<FENCE_PROXY, 4>("fence.proxy.async");
  ask_row<FENCE_PROXY_SHARED, 1>("fence.proxy.async.shared::cta"), ask_row<FENCE_PROXY_SHARED, 4>("fence.proxy.async.shared::cta");
  ask_row<FENCE_CLUSTER, 1>("fence.acq_rel.cluster"), ask_row<FENCE_CLUSTER, 4>("fence.acq_rel.cluster");
  ask_row<FENCE_CTA, 1>("fence.acq_rel.cta"), ask_row<FENCE_CTA, 4>("fence.acq_rel.cta");
  ask_row<FENCE_INIT, 1, 1>("fence.mbarrier_init"), ask_row<FENCE_INIT, 1, 4>("fence.mbarrier_init"), ask_row<FENCE_INIT, 1, 18>("fence.mbarrier_init");
  ask_row<FENCE_PROXY, 1, 1>("fence.proxy.async"), ask_row<FENCE_PROXY, 1, 18>("fence.proxy.async");
  ask_row<FENCE_PROXY_SHARED, 1, 1>("fence.proxy.async.shared::cta"), ask_row<FENCE_PROXY_SHARED, 1, 18>("fence.proxy.async.shared::cta");
  ask_row<FENCE_CTA, 1, 1>("fence.acq_rel.cta"), ask_row<FENCE_CTA, 1, 18>("fence.acq_rel.cta");
  ask_ping();
  for (int warps : {1, 2, 4, 6}) ask_row<SYNC, 1>("bar.sync", 32 * warps), ask_row<SYNC, 8>("bar.sync", 32 * warps);
  ask<0, NONE, false>("no barrier"), ask<0, NONE, true>("no barrier, probed");
  ask<0, CLUSTER, false>("barrier.cluster"), ask<0, CLUSTER_RELAXED, false>("barrier.cluster, relaxed");
  ask<0, CLUSTER, true>("barrier.cluster, probed"), ask<0, CLUSTER_RELAXED, true>("barrier.cluster, relaxed, probed");
  for (int late : {0, 250, 350, 400, 450, 500, 750}) {
    ask<15, CLUSTER, false>("15 mbarriers, cluster", late), ask<15, CLUSTER, true>("15 mbarriers, cluster, probed", late);
    ask<18, CLUSTER, false>("18 mbarriers, cluster", late), ask<18, CLUSTER, true>("18 mbarriers, cluster, probed", late);
  }
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
