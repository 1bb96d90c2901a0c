/* Which units are a block's (decode_plan.h), and how the last block of an item merges its pieces;
 * for the rungs from decode_balanced on. */
#ifndef SHARES_CUH
#define SHARES_CUH

#include "device/device.h"
#include "row_tile.cuh"

/* Where a block's share begins. */
struct share {
    int batch, item, unit; /* the item inside its sequence, the unit inside its item */
    long long begin, units, each;
};

/* Finds the block's share where all sequences are as long, and the host has cut. */
static __device__ __forceinline__ struct share share_as_cut(const struct attention &shape,
                                                            const struct balanced_plan &plan)
{
    const int units = balanced_units(shape.seq_kv);
    const long long all = (long long)shape.batch * plan.items * units;
    struct share share = {0, 0, 0, plan.share * blockIdx.x, 0, plan.share};
    share.units = min(share.each, all - share.begin);
    share.batch = (int)(share.begin / units / plan.items);
    share.item = (int)(share.begin / units % plan.items);
    share.unit = (int)(share.begin % units);
    return share;
}

/* Finds the block's share, by all lengths. Each warp does so for itself, and its lanes read 32
 * lengths at a time. */
static __device__ __forceinline__ struct share share_of(const struct attention &shape,
                                                        const struct balanced_plan &plan)
{
    const int lane = threadIdx.x % WARP;
    int all = 0; /* units of an item of every sequence */
    for (int batch = lane; batch < shape.batch; batch += WARP)
        all += balanced_units(sequence_keys(shape, batch * shape.kv_heads));
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        all += __shfl_xor_sync(FULL_MASK, all, distance);

    const long long units = (long long)all * plan.items;
    struct share share = {0, 0, 0, 0, 0, balanced_share(units, plan.blocks)};
    share.begin = share.each * blockIdx.x;
    share.units = min(share.each, units - share.begin);
    if (share.units <= 0)
        return share;

    long long before = 0; /* units of the sequences before batch0 */
    for (int batch0 = 0; batch0 < shape.batch; batch0 += WARP) {
        const int batch = batch0 + lane;
        const int own =
            batch < shape.batch ? balanced_units(sequence_keys(shape, batch * shape.kv_heads)) : 0;
        int upto = own; /* and of the lanes before this one */
#pragma unroll
        for (int distance = 1; distance < WARP; distance *= 2) {
            const int other = __shfl_up_sync(FULL_MASK, upto, distance);
            upto += lane >= distance ? other : 0;
        }
        const unsigned int ends_behind =
            __ballot_sync(FULL_MASK, before + (long long)upto * plan.items > share.begin);
        const int found = ends_behind != 0 ? __ffs(ends_behind) - 1 : WARP - 1;
        const int of_found = __shfl_sync(FULL_MASK, own, found);
        const int upto_found = __shfl_sync(FULL_MASK, upto, found);
        if (ends_behind != 0) {
            const long long inside =
                share.begin - before - (long long)(upto_found - of_found) * plan.items;
            share.batch = batch0 + found;
            share.item = (int)(inside / of_found);
            share.unit = (int)(inside % of_found);
            return share;
        }
        before += (long long)upto_found * plan.items;
    }
    return share;
}

/*
 * Merges an item's pieces, and stores its rows from row0 on, counted over all heads. L2 answers
 * after half a microsecond, and nothing else is on its way by now: a thread asks for LOADS parts at
 * once, AT_ONCE pieces of each of its next rows.
 */
template <typename T, int HEAD_DIM, int AT_ONCE>
static __device__ __forceinline__ void merge_rows(const struct decode_output &out,
                                                  struct balanced_pieces pieces, int row0, int rows)
{
    constexpr int LOADS = 16, ROWS = LOADS / AT_ONCE, LANES = HEAD_DIM / 4, APART = THREADS / LANES;
    const int feature = threadIdx.x % LANES * 4;
    for (int first = threadIdx.x / LANES; first < rows && feature < out.head_dim;
         first += ROWS * APART) {
        struct running all[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            all[r] = nothing();
        for (int piece = 0; piece < pieces.count; piece += AT_ONCE) {
            struct running parts[ROWS][AT_ONCE];
#pragma unroll
            for (int i = 0; i < LOADS; i++) {
                const int row = first + i / AT_ONCE * APART, of = piece + i % AT_ONCE;
                parts[i / AT_ONCE][i % AT_ONCE] =
                    row < rows && of < pieces.count
                        ? load_run(out, balanced_place(pieces, of), row, feature)
                        : nothing();
            }
#pragma unroll
            for (int i = 0; i < LOADS; i++)
                merge(&all[i / AT_ONCE], parts[i / AT_ONCE][i % AT_ONCE]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (first + r * APART < rows)
                store_result<T>(out, row0 + first + r * APART, feature, all[r]);
    }
}

/* With the form that has the fewest turns for so many pieces. */
template <typename T, int HEAD_DIM>
static __device__ __forceinline__ void
merge_pieces(const struct decode_output &out, struct balanced_pieces pieces, int row0, int rows)
{
    if (pieces.count <= 2)
        merge_rows<T, HEAD_DIM, 2>(out, pieces, row0, rows);
    else if (pieces.count <= 4)
        merge_rows<T, HEAD_DIM, 4>(out, pieces, row0, rows);
    else
        merge_rows<T, HEAD_DIM, 8>(out, pieces, row0, rows);
}

/* Ends an item: what the warps have left becomes its rows, or the block's piece of them; who counts
 * the last piece merges all. Rows count over all heads, from row0 on. */
template <typename T, int HEAD_DIM, int ROW_WARPS>
static __device__ __forceinline__ void end_item(const struct warp_states<HEAD_DIM> *states,
                                                struct decode_output out, unsigned int *counters,
                                                struct balanced_pieces pieces, int row0, int rows,
                                                bool wrong_length)
{
    out.runs = pieces.count;
    if (pieces.count == 1) {
        merge_warps<T, HEAD_DIM, ROW_WARPS>(states, out, 0, row0, rows, wrong_length);
        __syncthreads(); /* the states are merged before tiles of the next item lie there */
        return;
    }
    const int place = balanced_place(pieces, blockIdx.x - pieces.first_block);
    merge_warps<T, HEAD_DIM, ROW_WARPS>(states, out, place, 0, rows, false);
    __threadfence(); /* release: whoever sees the count sees this thread's part */
    __syncthreads(); /* every thread has stored its part before the piece counts */
    const bool last = __syncthreads_or(
        threadIdx.x == 0 && atomicAdd(&counters[pieces.first_block], 1u) == pieces.count - 1u);
    if (last) {
        __threadfence(); /* acquire: the pieces are not read before they were counted */
        merge_pieces<T, HEAD_DIM>(out, pieces, row0, rows);
    }
}

/* Launches a rung's kernel, a block for each share, with so many bytes of shared memory. */
template <typename T>
static cudaError_t launch_shares(const struct attention *call, int bytes,
                                 void (*kernel)(const T *Q, const T *K, const T *V,
                                                struct decode_output out, unsigned int *counters,
                                                struct attention shape, struct balanced_plan plan))
{
    struct device_limits device;
    cudaError_t status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    const struct balanced_plan plan = balanced_plan_of(call, &device);
    const bool merges = balanced_merges(call, &plan);
    const int places = merges ? 2 * plan.blocks : 0;
    struct decode_output out = decode_output_of(call, places, plan.tile_rows);
    unsigned int *const counters =
        (unsigned int *)(out.state_runs + (size_t)places * plan.tile_rows);
    status = cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  bytes);
    if (status == cudaSuccess && merges)
        status = cudaMemsetAsync(counters, 0, plan.blocks * sizeof *counters, call->stream);
    if (status != cudaSuccess)
        return status;
    kernel<<<plan.blocks, THREADS, bytes, call->stream>>>(
        (const T *)call->Q, (const T *)call->K, (const T *)call->V, out, counters, *call, plan);
    return cudaGetLastError();
}

#endif
