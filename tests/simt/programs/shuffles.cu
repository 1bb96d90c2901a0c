// Warp-level programming: broadcast, butterfly sum, scan, ballot, and a bitonic sort of 32 keys in
// registers.
#include <cstdio>

static const unsigned FULL_MASK = 0xffffffff;

__inline__ __device__ int warpReduceSum(int val)
{
    for (int mask = warpSize / 2; mask > 0; mask /= 2)
        val += __shfl_xor_sync(FULL_MASK, val, mask);
    return val;
}

__inline__ __device__ int warpScan(int val)
{
    int lane = threadIdx.x & (warpSize - 1);
    for (int d = 1; d < 32; d <<= 1) {
        int n = __shfl_up_sync(FULL_MASK, val, d);
        if (lane >= d)
            val += n;
    }
    return val;
}

__device__ int bitonicSort(int key)
{
    int lane = threadIdx.x & 31;
    for (int k = 2; k <= 32; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            int other = __shfl_xor_sync(FULL_MASK, key, j);
            bool up = (lane & k) == 0, lower = (lane & j) == 0;
            key = (up == lower) ? min(key, other) : max(key, other);
        }
    return key;
}

__global__ void kernel(const int *in, int *sums, int *scans, int *sorted, unsigned *ballots)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    int v = in[i];
    sums[i] = warpReduceSum(v);
    scans[i] = warpScan(v);
    sorted[i] = bitonicSort(v);
    ballots[i] = __ballot_sync(FULL_MASK, v & 1);
}

int main()
{
    const int n = 256;
    int *in, *sums, *scans, *sorted;
    unsigned *ballots;
    cudaMallocManaged(&in, n * sizeof(int));
    cudaMallocManaged(&sums, n * sizeof(int));
    cudaMallocManaged(&scans, n * sizeof(int));
    cudaMallocManaged(&sorted, n * sizeof(int));
    cudaMallocManaged(&ballots, n * sizeof(unsigned));
    for (int i = 0; i < n; ++i)
        in[i] = (i * 7919) % 1009;
    kernel<<<2, n / 2>>>(in, sums, scans, sorted, ballots);
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 2;
    int bad = 0;
    for (int w = 0; w < n; w += 32) {
        int sum = 0;
        unsigned ballot = 0;
        for (int l = 0; l < 32; ++l) {
            sum += in[w + l];
            ballot |= (unsigned)(in[w + l] & 1) << l;
            bad += scans[w + l] != sum;
            bad += l > 0 && sorted[w + l - 1] > sorted[w + l];
        }
        for (int l = 0; l < 32; ++l)
            bad += (sums[w + l] != sum) + (ballots[w + l] != ballot);
    }
    printf(bad ? "FAILED: %d\n" : "PASSED\n", bad);
    return bad != 0;
}
