// Sorts keys with values: a bitonic network in shared memory, then across blocks in global memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define SHARED_SIZE_LIMIT 256U

__device__ inline void Comparator(unsigned &keyA, unsigned &valA, unsigned &keyB, unsigned &valB,
                                  unsigned dir)
{
    if ((keyA > keyB) == dir) {
        unsigned t = keyA;
        keyA = keyB;
        keyB = t;
        t = valA;
        valA = valB;
        valB = t;
    }
}

__global__ void bitonicSortShared(unsigned *keys, unsigned *vals)
{
    __shared__ unsigned s_key[SHARED_SIZE_LIMIT];
    __shared__ unsigned s_val[SHARED_SIZE_LIMIT];
    keys += blockIdx.x * SHARED_SIZE_LIMIT + threadIdx.x;
    vals += blockIdx.x * SHARED_SIZE_LIMIT + threadIdx.x;
    s_key[threadIdx.x] = keys[0];
    s_val[threadIdx.x] = vals[0];
    s_key[threadIdx.x + SHARED_SIZE_LIMIT / 2] = keys[SHARED_SIZE_LIMIT / 2];
    s_val[threadIdx.x + SHARED_SIZE_LIMIT / 2] = vals[SHARED_SIZE_LIMIT / 2];
    for (unsigned size = 2; size <= SHARED_SIZE_LIMIT; size <<= 1) {
        unsigned ddd =
            size < SHARED_SIZE_LIMIT ? (threadIdx.x & (size / 2)) == 0 : blockIdx.x % 2 == 0;
        for (unsigned stride = size / 2; stride > 0; stride >>= 1) {
            __syncthreads();
            unsigned pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
            Comparator(s_key[pos], s_val[pos], s_key[pos + stride], s_val[pos + stride], ddd);
        }
    }
    __syncthreads();
    keys[0] = s_key[threadIdx.x];
    vals[0] = s_val[threadIdx.x];
    keys[SHARED_SIZE_LIMIT / 2] = s_key[threadIdx.x + SHARED_SIZE_LIMIT / 2];
    vals[SHARED_SIZE_LIMIT / 2] = s_val[threadIdx.x + SHARED_SIZE_LIMIT / 2];
}

__global__ void bitonicMergeGlobal(unsigned *keys, unsigned *vals, unsigned size, unsigned stride)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned ddd = (i & (size / 2)) == 0;
    unsigned pos = 2 * i - (i & (stride - 1));
    unsigned keyA = keys[pos], valA = vals[pos], keyB = keys[pos + stride],
             valB = vals[pos + stride];
    Comparator(keyA, valA, keyB, valB, ddd);
    keys[pos] = keyA;
    vals[pos] = valA;
    keys[pos + stride] = keyB;
    vals[pos + stride] = valB;
}

int main()
{
    const unsigned N = 4096;
    std::vector<unsigned> keys(N), vals(N), sortedKeys(N), sortedVals(N);
    for (unsigned i = 0; i < N; i++) {
        keys[i] = rand() % 100000;
        vals[i] = i;
    }
    unsigned *d_keys, *d_vals;
    cudaMalloc(&d_keys, N * sizeof(unsigned));
    cudaMalloc(&d_vals, N * sizeof(unsigned));
    cudaMemcpy(d_keys, keys.data(), N * sizeof(unsigned), cudaMemcpyHostToDevice);
    cudaMemcpy(d_vals, vals.data(), N * sizeof(unsigned), cudaMemcpyHostToDevice);
    bitonicSortShared<<<N / SHARED_SIZE_LIMIT, SHARED_SIZE_LIMIT / 2>>>(d_keys, d_vals);
    for (unsigned size = 2 * SHARED_SIZE_LIMIT; size <= N; size <<= 1)
        for (unsigned stride = size / 2; stride > 0; stride >>= 1)
            bitonicMergeGlobal<<<N / 512, 256>>>(d_keys, d_vals, size, stride);
    cudaMemcpy(sortedKeys.data(), d_keys, N * sizeof(unsigned), cudaMemcpyDeviceToHost);
    if (cudaMemcpy(sortedVals.data(), d_vals, N * sizeof(unsigned), cudaMemcpyDeviceToHost) !=
        cudaSuccess)
        return 2;
    bool ok = std::is_sorted(sortedKeys.begin(), sortedKeys.end());
    for (unsigned i = 0; i < N; i++)
        ok = ok && sortedVals[i] < N && keys[sortedVals[i]] == sortedKeys[i];
    puts(ok ? "PASSED" : "FAILED");
    return ok ? 0 : 1;
}
