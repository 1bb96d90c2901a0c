// needs: sm_90
/*
 * Idea: a CLUSTER of blocks computes one row that is too long for one: each block keeps a share.
 *
 *     each thread: (m, l) and the e^(x[c] - m) of its own columns; merged over its block, then over
 *     the cluster to (M, L); then y[c] = e^(x[c] - m) · (e^(m - M) / L)
 *
 * input and output are [rows, cols], row-major; x and y are one row of them. The blocks of a
 * cluster run together and can store into each other's shared memory: each PUSHES its state, 8
 * bytes, to all of them, and then each merges the states that came to it. Nothing else travels.
 *
 * A cluster owns a row, a block of LANES threads 1/blocks of its float4, a thread up to KEPT of
 * them. As few blocks as can hold the row, so that each is as full as possible, and at most 8: more
 * are not portable. Rows that fit one block, or hardly more, are online_lanes's, and so are those
 * that fit no cluster, or a device without any.
 *
 * Cost: rows·cols·4 bytes of global loads and as many of stores, 16 bytes at a time but for the
 * ends; rows·cols exponentials; 4·KEPT registers a thread for the row; per row one barrier in each
 * block, two of the cluster, blocks² · 8 bytes through the network between multiprocessors.
 */
#include "03_online_softmax/03_step.h"
#include "9_online_cluster.h"
#include "device/clusters.cuh"
#include "device/device.h"
#include "03_online_softmax/merge_row.cuh"
#include <ptx.cuh>
#include "harness/refusal.h"
#include "row_in_registers.cuh"

static const int LANES = CLUSTER_LANES;

template <int KEPT>
__global__ void __launch_bounds__(LANES, 1)
    online_cluster(const float *__restrict__ input, float *__restrict__ output, int cols)
{
    __shared__ __align__(8) struct running_softmax of_block[MAX_BLOCKS];
    /* this block has begun: the others may store into its shared memory */
    cluster_arrive_relaxed();

    const int rank = cluster_rank(), blocks = cluster_blocks();
    const int lane = threadIdx.x, row = blockIdx.x / blocks;
    input += (size_t)row * cols;
    output += (size_t)row * cols;

    const int head = head_of(input, cols), vectors = (cols - head) / 4;
    const float4 *middle = (const float4 *)(input + head);
    const int share = share_of_block(vectors, blocks);
    const int first = rank * share + lane, end = min((rank + 1) * share, vectors);

    float4 e[KEPT];
    load_kept<LANES>(e, middle, first, end);
    const int end_col = rank == 0 ? end_column(head, lane, cols) : -1;
    float e_end = end_col >= 0 ? input[end_col] : -CUDART_INF_F;
    const struct running_softmax own = exponentials(e, &e_end, running_softmax_empty());
    const struct running_softmax merged = merge_row<LANES>(own);

    /* all blocks have begun: their shared memory is theirs, and may be stored into */
    cluster_wait();
    if (lane < blocks)
        cluster_store(cluster_address(shared_address(&of_block[rank]), lane),
                      make_float2(merged.m, merged.l));
    cluster_arrive();
    cluster_wait(); /* all states are there, and no block stores into one that has ended */

    const int other = lane % MAX_BLOCKS;
    const struct running_softmax whole =
        merge_lanes<MAX_BLOCKS>(other < blocks ? of_block[other] : running_softmax_empty());
    const float factor = __expf(own.m - whole.m) / whole.l;

    const bool aligned = ((uintptr_t)input - (uintptr_t)output) % sizeof(float4) == 0;
    store_kept<LANES>(output + head, e, first, end, factor, aligned);
    if (end_col >= 0)
        output[end_col] = e_end * factor;
}

extern "C" cudaError_t softmax_online_cluster(const float *input, float *output, int rows, int cols,
                                              cudaStream_t stream)
{
    struct device_limits device;
    cudaError_t status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    const struct cluster_plan plan = cluster_plan_of(rows, cols, &device);
    if (plan.blocks == 0)
        return softmax_online_lanes(input, output, rows, cols, stream);

    status = require_blocks((size_t)plan.grid);
    if (status != cudaSuccess)
        return status;
    return launch_in_clusters(plan.blocks, (int)plan.grid, LANES, 0, stream,
                              plan.kept == FEW_KEPT ? online_cluster<FEW_KEPT>
                                                    : online_cluster<MAX_KEPT>,
                              input, output, cols);
}
