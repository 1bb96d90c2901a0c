// Exclusive prefix sum after Blelloch, over several blocks with a second level.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK 128
#define NUM_BANKS 32
#define LOG_NUM_BANKS 5
#define CONFLICT_FREE_OFFSET(n) ((n) >> LOG_NUM_BANKS)

__global__ void scan_block(int *out, const int *in, int *sums, int n)
{
    __shared__ int temp[2 * BLOCK + 2 * BLOCK / NUM_BANKS];
    int thid = threadIdx.x, base = 2 * BLOCK * blockIdx.x, offset = 1;
    int ai = thid, bi = thid + BLOCK;
    temp[ai + CONFLICT_FREE_OFFSET(ai)] = base + ai < n ? in[base + ai] : 0;
    temp[bi + CONFLICT_FREE_OFFSET(bi)] = base + bi < n ? in[base + bi] : 0;
    for (int d = BLOCK; d > 0; d >>= 1) {
        __syncthreads();
        if (thid < d) {
            int a = offset * (2 * thid + 1) - 1, b = offset * (2 * thid + 2) - 1;
            temp[b + CONFLICT_FREE_OFFSET(b)] += temp[a + CONFLICT_FREE_OFFSET(a)];
        }
        offset *= 2;
    }
    if (thid == 0) {
        int last = 2 * BLOCK - 1;
        sums[blockIdx.x] = temp[last + CONFLICT_FREE_OFFSET(last)];
        temp[last + CONFLICT_FREE_OFFSET(last)] = 0;
    }
    for (int d = 1; d < 2 * BLOCK; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (thid < d) {
            int a = offset * (2 * thid + 1) - 1, b = offset * (2 * thid + 2) - 1;
            a += CONFLICT_FREE_OFFSET(a);
            b += CONFLICT_FREE_OFFSET(b);
            int t = temp[a];
            temp[a] = temp[b];
            temp[b] += t;
        }
    }
    __syncthreads();
    if (base + ai < n)
        out[base + ai] = temp[ai + CONFLICT_FREE_OFFSET(ai)];
    if (base + bi < n)
        out[base + bi] = temp[bi + CONFLICT_FREE_OFFSET(bi)];
}

__global__ void add_sums(int *out, const int *sums, int n)
{
    int i = 2 * BLOCK * blockIdx.x + threadIdx.x;
    if (i < n)
        out[i] += sums[blockIdx.x];
    if (i + BLOCK < n)
        out[i + BLOCK] += sums[blockIdx.x];
}

int main()
{
    const int n = 10000, blocks = (n + 2 * BLOCK - 1) / (2 * BLOCK);
    assert(blocks <= 2 * BLOCK);
    int *in = (int *)malloc(n * sizeof(int)), *out = (int *)malloc(n * sizeof(int));
    int *d_in, *d_out, *d_sums, *d_total;
    for (int i = 0; i < n; i++)
        in[i] = rand() % 100;
    cudaMalloc((void **)&d_in, n * sizeof(int));
    cudaMalloc((void **)&d_out, n * sizeof(int));
    cudaMalloc((void **)&d_sums, blocks * sizeof(int));
    cudaMalloc((void **)&d_total, sizeof(int));
    cudaMemcpy(d_in, in, n * sizeof(int), cudaMemcpyHostToDevice);
    scan_block<<<blocks, BLOCK>>>(d_out, d_in, d_sums, n);
    scan_block<<<1, BLOCK>>>(d_sums, d_sums, d_total, blocks);
    add_sums<<<blocks, BLOCK>>>(d_out, d_sums, n);
    cudaMemcpy(out, d_out, n * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0, sum = 0; i < n; sum += in[i++])
        if (out[i] != sum) {
            printf("FAILED at %d: %d, expected %d\n", i, out[i], sum);
            return 1;
        }
    printf("PASSED\n");
    return 0;
}
