// What a probe's own instructions take. One elected thread goes through tiles of K steps as the MMA warp of a persistent GEMM does and
// writes an interval around each wait and each issue: SM and phase, the time; the time less the one it loads again. Every mbarrier
// is open and nothing is multiplied. The clock is read in cycles. docs/design/clock.md says what an H200 answered.
//
//   nvcc -arch=sm_90a -std=c++17 -run probe.cu
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

constexpr int CTAS = 132, TILES = 4, STEPS = 64, STAGES = 7, WORDS = 4 * TILES * (2 * STEPS + 1);
enum Phase { READERS, LOAD, ISSUE };
const char* const NAMES[] = {"wait for readers", "wait for a load", "issue"};

#define DEVICE __device__ __forceinline__

DEVICE int64_t now() {
  int64_t cycles;
  asm volatile("mov.u64 %0, %clock64;" : "=l"(cycles)::"memory");
  return cycles;
}

DEVICE void wait(uint32_t bar) {
  asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 1; @!done bra again; }" ::"r"(bar));
}

struct Probe {
  int64_t* entries;
  int count;
  int64_t sm;
  DEVICE void begin(Phase phase) { entries[4 * count] = sm, entries[4 * count + 1] = phase, entries[4 * count + 2] = now(); }
  DEVICE void end() { entries[4 * count + 3] = now() - entries[4 * count + 2], count++; }
};

__global__ void __launch_bounds__(192) walk(int64_t* entries, int tiles, int steps, int64_t* counts) {
  __shared__ uint64_t bars[STAGES + 1];
  __shared__ int issued[STAGES];
  const uint32_t bar = (uint32_t)__cvta_generic_to_shared(bars), sink = (uint32_t)__cvta_generic_to_shared(issued);
  if (threadIdx.x <= STAGES) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar + 8 * threadIdx.x) : "memory");
  __syncthreads();
  uint32_t elected = 0;
  if (threadIdx.x / 32 == 1)
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  if (elected) {
    Probe probe{entries + (int64_t)blockIdx.x * WORDS, 0, blockIdx.x};
    int s = 0;
#pragma unroll 1
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      probe.begin(READERS);
      wait(bar + 8 * STAGES);
      probe.end();
#pragma unroll 1
      for (int k = 0; k < steps; k++) {
        probe.begin(LOAD);
        wait(bar + 8 * s);
        probe.end();
        probe.begin(ISSUE);
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(sink + 4 * s), "r"(k));  // in place of the mma
        probe.end();
        s = (s + 1) % STAGES;
      }
    }
    counts[blockIdx.x] = probe.count;
  }
  __syncthreads();
}

int main() {
  int64_t *entries, *counts;
  std::vector<int64_t> h(CTAS * WORDS);
  cudaMalloc(&entries, h.size() * 8);
  cudaMalloc(&counts, CTAS * 8);
  for (int i = 0; i < 2; i++) walk<<<CTAS, 192>>>(entries, CTAS * TILES, STEPS, counts);
  cudaMemcpy(h.data(), entries, h.size() * 8, cudaMemcpyDeviceToHost);
  std::map<std::string, std::vector<int64_t>> found;
  for (int cta = 0; cta < CTAS; cta++) {
    int64_t last_issue = 0;
    for (int64_t *at = &h[cta * WORDS], *first = at; at < first + WORDS; at += 4) {
      found[NAMES[at[1]]].push_back(at[3]);
      if (at > first) found[std::string("from ") + NAMES[at[-3]] + " to " + NAMES[at[1]]].push_back(at[2] - at[-2] - at[-1]);
      if (at[1] != ISSUE) continue;
      if (last_issue) found[at[-7] == READERS ? "issue to issue, next tile" : "issue to issue"].push_back(at[2] - last_issue);
      last_issue = at[2];
    }
  }
  for (auto& [name, cycles] : found) {
    std::sort(cycles.begin(), cycles.end());
    printf("%-44s %4lld to %4lld, median %4lld cycles\n", name.c_str(), (long long)cycles[0], (long long)cycles.back(),
           (long long)cycles[cycles.size() / 2]);
  }
}
