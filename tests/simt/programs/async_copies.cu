// Programs use <cuda/barrier> and <cuda/pipeline> in this way: phases of a block, tiles copied one
// step ahead, and groups that move values of 16 bytes.
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

enum { THREADS = 128, TILES = 7 };

__global__ void sum_by_phases(const float *in, float *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    __shared__ __align__(16) float tile[THREADS];
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0)
        init(&ready, block.size());
    block.sync();
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        cuda::memcpy_async(block, tile, in + t * THREADS, cuda::aligned_size_t<16>(sizeof tile),
                           ready);
        auto token = ready.arrive();
        ready.wait(std::move(token));
        sum += tile[THREADS - 1 - threadIdx.x];
        ready.arrive_and_wait(); // all threads have read the tile
    }
    out[threadIdx.x] = sum;
}

__global__ void sum_by_pipeline(const float4 *in, float4 *out)
{
    __shared__ float4 stage[2][THREADS];
    cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
    const auto shape = cuda::aligned_size_t<alignof(float4)>(sizeof(float4));
    float4 sum = make_float4(0, 0, 0, 0);
    for (int t = 0; t <= TILES; t++) {
        if (t < TILES) {
            pipe.producer_acquire();
            cuda::memcpy_async(&stage[t % 2][threadIdx.x], in + t * THREADS + threadIdx.x, shape,
                               pipe);
        }
        pipe.producer_commit();
        if (t == 0)
            continue;
        cuda::pipeline_consumer_wait_prior<1>(pipe);
        __syncthreads(); // the neighbours' copies have arrived, too
        const float4 value = stage[(t - 1) % 2][threadIdx.x ^ 1];
        sum.x += value.x;
        sum.w += value.w;
        pipe.consumer_release();
        __syncthreads(); // the stage has been read
    }
    out[threadIdx.x] = sum;
}

__global__ void shared_pipeline(const float *in, float *out)
{
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 1> state;
    __shared__ cg::block_tile_memory<THREADS> scratch;
    __shared__ __align__(16) float tile[THREADS];
    auto block = cg::this_thread_block(scratch);
    auto pipe = cuda::make_pipeline(block, &state);
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        pipe.producer_acquire();
        cuda::memcpy_async(block, tile, in + t * THREADS, sizeof tile, pipe);
        pipe.producer_commit();
        pipe.consumer_wait();
        sum += tile[THREADS - 1 - threadIdx.x];
        pipe.consumer_release();
    }
    out[threadIdx.x] = sum;
}

// From phase to phase only half as many threads arrive.
__global__ void fewer_and_fewer(float *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ float counted[THREADS];
    if (threadIdx.x == 0)
        init(&barrier, THREADS);
    counted[threadIdx.x] = 1;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x >= half) {
            barrier.arrive_and_drop();
            return;
        }
        barrier.arrive_and_wait();
        counted[threadIdx.x] += counted[threadIdx.x + half];
    }
    *out = counted[0];
}

__global__ void reverse_quads(const float4 *in, float4 *out)
{
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    out[threadIdx.x] = tile.shfl(in[threadIdx.x], 7 - tile.thread_rank());
}

int main()
{
    static float in[4 * THREADS * TILES], out[4 * THREADS];
    for (int i = 0; i < 4 * THREADS * TILES; i++)
        in[i] = (float)(i * 37 % 101);
    float *device_in, *device_out;
    cudaMalloc(&device_in, sizeof in);
    cudaMalloc(&device_out, sizeof out);
    cudaMemcpy(device_in, in, sizeof in, cudaMemcpyHostToDevice);
    int wrong = 0;

    void (*const sums[])(const float *, float *) = {sum_by_phases, shared_pipeline};
    for (auto sum : sums) {
        sum<<<1, THREADS>>>(device_in, device_out);
        cudaMemcpy(out, device_out, THREADS * sizeof *out, cudaMemcpyDeviceToHost);
        for (int i = 0; i < THREADS; i++) {
            float expected = 0;
            for (int t = 0; t < TILES; t++)
                expected += in[t * THREADS + THREADS - 1 - i];
            wrong += out[i] != expected;
        }
    }

    sum_by_pipeline<<<1, THREADS>>>((const float4 *)device_in, (float4 *)device_out);
    cudaMemcpy(out, device_out, sizeof out, cudaMemcpyDeviceToHost);
    for (int i = 0; i < THREADS; i++) {
        float x = 0, w = 0;
        for (int t = 0; t < TILES; t++) {
            x += in[4 * (t * THREADS + (i ^ 1))];
            w += in[4 * (t * THREADS + (i ^ 1)) + 3];
        }
        wrong += (out[4 * i] != x) + (out[4 * i + 3] != w);
    }

    fewer_and_fewer<<<1, THREADS>>>(device_out);
    cudaMemcpy(out, device_out, sizeof *out, cudaMemcpyDeviceToHost);
    wrong += out[0] != THREADS;

    reverse_quads<<<1, THREADS>>>((const float4 *)device_in, (float4 *)device_out);
    cudaMemcpy(out, device_out, sizeof out, cudaMemcpyDeviceToHost);
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < 4; k++)
            wrong += out[4 * i + k] != in[4 * (i / 8 * 8 + 7 - i % 8) + k];

    printf("%d wrong, %s\n", wrong, cudaGetErrorString(cudaGetLastError()));
    return wrong != 0 || cudaDeviceSynchronize() != cudaSuccess;
}
