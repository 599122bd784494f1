// What loads and stores of global memory take: cycles of an access of a warp, of one SM and of all, by how far apart the lanes' addresses are;
// what a load waits behind the stores of other warps. docs/design/clock.md says what an H200 answered.
//
//   nvcc -std=c++17 -O3 -gencode arch=compute_90a,code=sm_90a -run traffic.cu
#include <cstdint>
#include <cstdio>

constexpr int COUNT = 16, PASSES = 400, WARPS = 32;
constexpr int64_t BETWEEN = 1 << 22;
enum Form { LOAD, LOAD_16, STORE, STORE_16 };

#define DEVICE __device__ __forceinline__

DEVICE int64_t now() {
  int64_t cycles;
  asm volatile("mov.u64 %0, %clock64;" : "=l"(cycles)::"memory");
  return cycles;
}

template <Form FORM> DEVICE uint32_t access(char* at, uint32_t value) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if constexpr (FORM == LOAD) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(a) : "l"(at));
  if constexpr (FORM == LOAD_16) asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(at));
  if constexpr (FORM == STORE) asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
  if constexpr (FORM == STORE_16) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(at), "r"(value) : "memory");
  return a ^ b ^ c ^ d;
}

// Each warp goes over 16 accesses of its own, in four places by turns, far more than L1 holds in all.
template <Form FORM, int STRIDE> __global__ void rate(char* data, int64_t* cycles, uint32_t* sink) {
  uint32_t sum = 0;
  char* mine = data + ((int64_t)blockIdx.x * WARPS + threadIdx.x / 32) * COUNT * 32 * STRIDE + threadIdx.x % 32 * STRIDE;
  __syncthreads();
  int64_t begin = now();
  for (int pass = 0; pass < PASSES; pass++) {
#pragma unroll
    for (int k = 0; k < COUNT; k++) sum += access<FORM>(mine + (pass & 3) * BETWEEN + k * 32 * STRIDE, pass);
  }
  if (sum == 12345) *sink = sum;
  __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = now() - begin;
}

// One thread loads what it has stored, from L1; four warps issue some stores of 16 bytes to a line each, wait, and do so again.
__global__ void behind(char* data, int64_t* told, int stores, int wait) {
  __shared__ volatile int is_over;
  if (threadIdx.x == 0) is_over = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    int64_t at = (int64_t)data, sum = 0;
    *(int64_t*)data = at;
    for (int64_t begin = now(); now() - begin < 5000;) {}
    for (int k = 0; k < 300; k++) {
      int64_t begin = now();
      for (int n = 0; n < 4; n++) asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(at)::"memory");
      asm volatile("{ .reg .pred p; setp.eq.u64 p, %0, 0; @p trap; }" ::"l"(at));
      sum += now() - begin;
    }
    is_over = 1;
    *told = sum / 1200;
  } else if (threadIdx.x >= 32) {
    char* row = data + 4096 + threadIdx.x * 1024;
    for (int n = 0; !is_over && n < 100000; n++) {
      for (int k = 0; k < stores; k++) access<STORE_16>(row + (n * 4 + k) % 32 * 16, n);
      for (int64_t begin = now(); now() - begin < wait;) {}
    }
  }
}

char* data;
int64_t* told;
uint32_t* sink;

template <Form FORM, int STRIDE> void ask(const char* name) {
  for (int sms : {1, 132}) {
    for (int k = 0; k < 2; k++) rate<FORM, STRIDE><<<sms, 32 * WARPS>>>(data, told, sink);
    int64_t cycles;
    cudaMemcpy(&cycles, told, 8, cudaMemcpyDefault);
    printf("%-11s %3d bytes apart, %3d SMs: %6.2f cycles of an SM for an access\n", name, STRIDE, sms, (double)cycles / PASSES / COUNT / WARPS);
  }
}

int main() {
  cudaMalloc(&data, 1 << 29), cudaMalloc(&told, 4096), cudaMalloc(&sink, 64);
  cudaMemset(data, 0, 1 << 29);
  ask<LOAD, 4>("load of 4"), ask<LOAD_16, 16>("load of 16"), ask<LOAD, 32>("load of 4"), ask<LOAD, 64>("load of 4"), ask<LOAD, 128>("load of 4");
  ask<STORE, 4>("store of 4"), ask<STORE_16, 16>("store of 16"), ask<STORE, 32>("store of 4"), ask<STORE, 64>("store of 4"), ask<STORE, 128>("store of 4");
  for (int stores : {0, 1, 4}) {
    for (int wait : {0, 400, 900}) {
      for (int k = 0; k < 2; k++) behind<<<1, 160>>>(data, told, stores, wait);
      int64_t cycles;
      cudaMemcpy(&cycles, told, 8, cudaMemcpyDefault);
      printf("a load behind %d stores of each of four warps, every %d cycles: %ld cycles\n", stores, wait, (long)cycles);
    }
  }
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
