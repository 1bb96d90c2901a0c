// needs: sm_90
/*
 * Idea: a CLUSTER of blocks computes one row that is too long for one: each block keeps a share of
 * it.
 *
 *     each thread: (m, l) and the e^(x[c] - m) of its own columns; merged over its block, then over
 *     the
 *     cluster to (M, L); then y[c] = e^(x[c] - m) · (e^(m - M) / L)
 *
 * input and output are [rows, cols], row-major; x and y are one row of them. The blocks of a
 * cluster run together and can store into each other's shared memory: each PUSHES its 8 bytes of
 * state to all of them, and then each merges the states that came to it. Nothing travels but those
 * 8 bytes.
 *
 * A cluster owns a row, a block of 1024 threads 1/blocks of its float4, a thread up to VECTORS of
 * them. As few blocks as can hold the row, so that each is as full as possible, and at most 8: more
 * are not portable. Rows that fit one block, or hardly more, are online_block's, and so are those
 * that fit no cluster, or a device without any.
 *
 * Cost: rows·cols·4 bytes of global loads and as many of stores, 16 bytes at a time; rows·cols
 * exponentials; 4·VECTORS registers a thread; per row one barrier in each block, two of the
 * cluster, blocks² · 8 bytes through the network between multiprocessors.
 */
#include "03_step.h"
#include "backend.h"
#include "clusters.cuh"
#include "ptx.cuh"
#include "refusal.h"
#include "row_in_registers.cuh"
#include "tiles.cuh"

static const int THREADS = 1024;
static const int MAX_BLOCKS = 8;   /* of a cluster, on any device that has them */
static const int MAX_VECTORS = 11; /* 44 of the 64 registers that each of 1024 threads can have */
/* Of each thread in two blocks. With fewer, reading a part of the row twice is quicker than the
 * cluster. */
static const int MIN_VECTORS = 7;

/* How many float4 each block keeps: whole warps of them, so that the next block's begin at a
 * multiple of 512 bytes. */
static __device__ int share_of_block(int vectors, int blocks)
{
    return ceil_div(ceil_div(vectors, blocks), WARP) * WARP;
}

template <int VECTORS>
__global__ void __launch_bounds__(THREADS, 1)
    online_cluster(const float *__restrict__ input, float *__restrict__ output, int cols)
{
    __shared__ __align__(8) struct running_softmax of_block[MAX_BLOCKS];
    /* this block has begun: the others may store into its shared memory */
    cluster_arrive_relaxed();

    const int rank = cluster_rank(), blocks = cluster_blocks();
    const int lane = threadIdx.x;
    const size_t row = blockIdx.x / blocks;
    input += row * cols;
    output += row * cols;

    const struct row_layout layout = layout_of(input, cols);
    const int share = share_of_block(layout.vectors, blocks);
    const int first = rank * share + lane;
    const int end = min((rank + 1) * share, layout.vectors);

    float4 e[VECTORS];
    load_vectors<THREADS>(e, (const float4 *)(input + layout.head), first, end);
    const int end_col = rank == 0 ? end_column(layout, lane, cols) : -1;
    float e_end = end_col >= 0 ? input[end_col] : -INFINITY;
    const struct running_softmax own = exponentials(e, &e_end, running_softmax_empty());
    const struct running_softmax merged = merge_row<THREADS>(own);

    /* all blocks have begun: their shared memory is theirs, and may be stored into */
    cluster_wait();
    if (lane < blocks)
        cluster_store(cluster_address(shared_address(&of_block[rank]), lane),
                      make_float2(merged.m, merged.l));
    cluster_arrive();
    cluster_wait(); /* all states are there, and nobody stores into a block that has ended */

    const int other = lane % MAX_BLOCKS;
    const struct running_softmax whole =
        merge_lanes<MAX_BLOCKS>(other < blocks ? of_block[other] : running_softmax_empty());
    const float factor = __expf(own.m - whole.m) / whole.l;

    const bool aligned = ((uintptr_t)input - (uintptr_t)output) % sizeof(float4) == 0;
    store_vectors<THREADS>(output + layout.head, e, first, end, factor, aligned);
    if (end_col >= 0)
        output[end_col] = e_end * factor;
}

extern "C" cudaError_t softmax_online_cluster(const float *input, float *output, int rows, int cols,
                                              cudaStream_t stream)
{
    const int vectors = cols / 4;
    const int blocks = ceil_div(vectors, THREADS * MAX_VECTORS);
    if (vectors <= 2 * THREADS * MIN_VECTORS || blocks > MAX_BLOCKS || backend_architecture() < 90)
        return softmax_online_block(input, output, rows, cols, stream);

    const cudaError_t status = require_blocks((size_t)rows * blocks);
    if (status != cudaSuccess)
        return status;

    const bool few = ceil_div(vectors, THREADS * blocks) <= 8;
    return launch_in_clusters(blocks, rows * blocks, THREADS, 0, stream,
                              few ? online_cluster<8> : online_cluster<MAX_VECTORS>, input, output,
                              cols);
}
