/* Which units are a block's (decode_plan.h), and how the last to leave a piece of an item merges
 * them; for the rungs from decode_balanced on. */
#ifndef SHARES_CUH
#define SHARES_CUH

#include "device/clusters.cuh"
#include "device/device.h"
#include "row_tile.cuh"

#include <cuda/atomic>

/* What is left of a block's share: from unit `begin` of the line on `units`, of `each` that every
 * block has. */
struct share {
    int kv_head, row_tile; /* the item where it begins; kv heads count over all batches */
    int unit;              /* and the unit inside of it */
    long long begin, units, each;
};

/* What a share has of an item. */
struct part {
    int kv_head, row0, rows; /* of all batches; row0 counts inside its list */
    int length;              /* keys of the sequence, -1 where it is wrong */
    int units, taken;        /* of the item, and of them in the share */
    int first_key, end;      /* some row sees first_key .. end - 1, none where that is nothing */
};

/* Returns the first part of what is left of a share. */
static __device__ __forceinline__ struct part
part_of(const struct attention &shape, const struct balanced_plan &plan, const struct share &left)
{
    struct part part;
    part.kv_head = left.kv_head;
    part.row0 = left.row_tile * plan.tile_rows;
    part.rows = min(plan.tile_rows, plan.head_rows - part.row0);
    part.length = sequence_keys(shape, part.kv_head);
    const int keys = max(part.length, 0);
    part.units = balanced_units(keys) + plan.extra;
    part.taken = (int)min((long long)(part.units - left.unit), left.units);
    part.first_key = max(left.unit - plan.extra, 0) * DECODE_KEYS;
    part.end = min(decode_seen_by_any(shape, part.row0, part.rows, keys),
                   (left.unit + part.taken - plan.extra) * DECODE_KEYS);
    return part;
}

static __device__ __forceinline__ int tiles_of(const struct part &part, int tile_keys)
{
    return part.end > part.first_key ? ceil_div(part.end - part.first_key, tile_keys) : 0;
}

static __device__ __forceinline__ void
leave_part(struct share &left, const struct balanced_plan &plan, const struct part &part)
{
    left.begin += part.taken;
    left.units -= part.taken;
    left.unit = 0;
    left.row_tile++;
    if (left.row_tile == plan.row_tiles) {
        left.row_tile = 0;
        left.kv_head++;
    }
}

/* Finds the block's share where all sequences are as long, and the host has cut. */
static __device__ __forceinline__ struct share share_as_cut(const struct attention &shape,
                                                            const struct balanced_plan &plan)
{
    const int units = balanced_units(shape.seq_kv);
    const long long all = (long long)shape.batch * plan.items * units;
    struct share share = {0, 0, 0, plan.share * blockIdx.x, 0, plan.share};
    share.units = min(share.each, all - share.begin);
    const long long item = share.begin / units;
    share.kv_head = (int)(item / plan.row_tiles);
    share.row_tile = (int)(item % plan.row_tiles);
    share.unit = (int)(share.begin % units);
    return share;
}

/* Finds the share of a block of a cluster, whose blocks have an item among them, each a unit at
 * least. It counts units inside the item, and as if each block had all: so the item has one piece,
 * as the workspace sees it. */
static __device__ __forceinline__ struct share share_in_cluster(const struct attention &shape,
                                                                const struct balanced_plan &plan)
{
    const int units = balanced_units(shape.seq_kv), item = blockIdx.x / plan.cluster;
    const int rank = blockIdx.x % plan.cluster;
    struct share share = {item / plan.row_tiles, item % plan.row_tiles, 0, 0, 0, units};
    share.unit = (int)((long long)units * rank / plan.cluster);
    share.begin = share.unit;
    share.units = (long long)units * (rank + 1) / plan.cluster - share.unit;
    return share;
}

/* Finds the block's share, by all lengths. Each warp does so for itself, and its lanes read 32
 * lengths at a time. */
static __device__ __forceinline__ struct share share_of(const struct attention &shape,
                                                        const struct balanced_plan &plan)
{
    const int lane = threadIdx.x % WARP;
    long long all = 0; /* units of an item of every sequence */
    for (int batch = lane; batch < shape.batch; batch += WARP)
        all += balanced_units(sequence_keys(shape, batch * shape.kv_heads)) + plan.extra;
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        all += __shfl_xor_sync(FULL_MASK, all, distance);

    const long long units = all * plan.items;
    struct share share = {0, 0, 0, 0, 0, balanced_share(units, plan.blocks)};
    share.begin = share.each * blockIdx.x;
    share.units = min(share.each, units - share.begin);
    if (share.units <= 0)
        return share;

    long long before = 0; /* units of the sequences before batch0 */
    for (int batch0 = 0; batch0 < shape.batch; batch0 += WARP) {
        const int batch = batch0 + lane;
        const int own =
            batch < shape.batch
                ? balanced_units(sequence_keys(shape, batch * shape.kv_heads)) + plan.extra
                : 0;
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
            const int item = (int)(inside / of_found);
            share.kv_head = (batch0 + found) * shape.kv_heads + item / plan.row_tiles;
            share.row_tile = item % plan.row_tiles;
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
template <typename T, int HEAD_DIM, int COUNT, int AT_ONCE>
static __device__ __forceinline__ void merge_rows(const struct decode_output &out,
                                                  struct balanced_pieces pieces, int row0, int rows)
{
    constexpr int LOADS = 16, ROWS = LOADS / AT_ONCE;
    constexpr int LANES = HEAD_DIM / 4, APART = COUNT * WARP / LANES;
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

/* An item of which the block has left a piece. Rows count over all heads, from row0 on. */
struct open_item {
    struct balanced_pieces pieces;
    int row0, rows;
};

/* The item of the first part of what is left. */
static __device__ __forceinline__ struct open_item
open_item_of(const struct part &part, const struct share &left, const struct balanced_plan &plan)
{
    const struct open_item item = {
        balanced_pieces_of(left.begin - left.unit, part.units, left.each),
        part.kv_head * plan.head_rows + part.row0, part.rows};
    return item;
}

/* Stores what the warps have left of an item: its rows, or the block's piece of them. */
template <typename T, int HEAD_DIM, int ROW_WARPS, int COUNT>
static __device__ __forceinline__ void leave_item(const struct warp_states<HEAD_DIM, COUNT> *states,
                                                  struct decode_output out,
                                                  const struct open_item &item, bool wrong_length)
{
    const bool whole = item.pieces.count == 1;
    const int place = balanced_place(item.pieces, blockIdx.x - item.pieces.first_block);
    out.runs = item.pieces.count;
    merge_warps<T, HEAD_DIM, ROW_WARPS>(states, out, whole ? 0 : place, whole ? item.row0 : 0,
                                        item.rows, wrong_length);
}

/* Release and acquire are a part of counting: __threadfence() beside an atomic orders more than
 * that, and takes longer. */
typedef cuda::atomic_ref<unsigned int, cuda::thread_scope_device> piece_counter;

/*
 * Counts the block's piece of each item, none where pieces.count is 0. Each warp counts for the
 * rows that it has stored; of the warps with the same rows, one in each block, who counts last
 * merges all pieces of them. One code for all items: by then it must come from memory, too.
 */
template <typename T, int HEAD_DIM, int ROW_WARPS, int COUNT, int ITEMS>
static __device__ __forceinline__ void count_pieces(struct decode_output out,
                                                    unsigned int *counters,
                                                    const struct open_item (&items)[ITEMS])
{
    static_assert(ITEMS <= 2, "the first and the last are all");
    constexpr int AT_ONCE = ROW_WARPS == 4 ? 2 : 8, A_ROW_EACH = COUNT * WARP / (HEAD_DIM / 4);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    __syncwarp(); /* every lane has stored its part before one counts */
    bool last = false;
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
        if (lane == i && items[i].pieces.count > 0)
            last = piece_counter(counters[items[i].pieces.first_block * COUNT + warp])
                       .fetch_add(1u, cuda::memory_order_acq_rel) == items[i].pieces.count - 1u;
    const unsigned int merges = __ballot_sync(FULL_MASK, last);
    if (merges == 0)
        return;
    __syncwarp(); /* a vote orders nothing: here the other lanes come after who has counted */
#pragma unroll 1
    for (int i = 0; i < ITEMS; i++) {
        struct open_item item = items[0];
        if (i > 0)
            item = items[ITEMS - 1];
        out.runs = item.pieces.count;
        if (!(merges >> i & 1))
            continue;
        if (ROW_WARPS == 1 && item.rows <= A_ROW_EACH) /* all of LOADS are of one row */
            merge_rows<T, HEAD_DIM, COUNT, 2 * AT_ONCE>(out, item.pieces, item.row0, item.rows);
        else
            merge_rows<T, HEAD_DIM, COUNT, AT_ONCE>(out, item.pieces, item.row0, item.rows);
    }
}

/* Ends an item: what the warps have left becomes its rows, or the block's piece of them, which
 * counts; who counts the last piece merges all. */
template <typename T, int HEAD_DIM, int ROW_WARPS, int COUNT>
static __device__ __forceinline__ void
end_item(const struct warp_states<HEAD_DIM, COUNT> *states, const struct decode_output &out,
         unsigned int *counters, const struct open_item &item, bool wrong_length)
{
    leave_item<T, HEAD_DIM, ROW_WARPS>(states, out, item, wrong_length);
    const struct open_item items[] = {item};
    if (item.pieces.count > 1)
        count_pieces<T, HEAD_DIM, ROW_WARPS, COUNT>(out, counters, items);
}

/* Launches a rung's kernel, a block of so many threads for each share, with so many bytes of shared
 * memory. `more` is what it takes besides. */
template <typename T, class Kernel, class... More>
static cudaError_t launch_shares(const struct attention *call, const struct balanced_plan &plan,
                                 Kernel kernel, int threads, int bytes, const More &...more)
{
    const bool merges = balanced_merges(call, &plan);
    const int places = merges ? 2 * plan.blocks : 0;
    struct decode_output out = decode_output_of(call, places, plan.tile_rows);
    unsigned int *const counters =
        (unsigned int *)(out.state_runs + (size_t)places * plan.tile_rows);
    const T *const Q = (const T *)call->Q, *const K = (const T *)call->K;
    const T *const V = (const T *)call->V;
    cudaError_t status = cudaFuncSetAttribute((const void *)kernel,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status == cudaSuccess && merges)
        status = cudaMemsetAsync(counters, 0, (size_t)plan.blocks * plan.warps * sizeof *counters,
                                 call->stream);
    if (status != cudaSuccess)
        return status;
    if (plan.cluster > 1)
        return launch_in_clusters(plan.cluster, plan.blocks, threads, bytes, call->stream, kernel,
                                  Q, K, V, out, counters, *call, plan, more...);
    kernel<<<plan.blocks, threads, bytes, call->stream>>>(Q, K, V, out, counters, *call, plan,
                                                          more...);
    return cudaGetLastError();
}

/* Launches it with decode_balanced's plan. */
template <typename T, class Kernel>
static cudaError_t launch_balanced(const struct attention *call, Kernel kernel, int bytes)
{
    struct device_limits device;
    const cudaError_t status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    return launch_shares<T>(call, balanced_plan_of(call, DECODE_BALANCED_RESIDENT, &device), kernel,
                            THREADS, bytes);
}

#endif
