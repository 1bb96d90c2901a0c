// needs: sm_80
/*
 * Idea: sequences differ in length, and only the device knows by how much; so every block takes an
 * equal share of all tiles of keys there are, and the last block to finish an item merges it.
 *
 *     line up the units:   for each sequence, tile of rows of its kv heads, tile of its keys
 *     block i of n takes   share · i .. share · (i + 1) - 1,      share = units / n, rounded up;
 *                          to whole items or whole parts of one where there are no lengths
 *     for each item (a tile of rows) of which some units are in the share:
 *         (m, l, O) of these units, as decode_async
 *         all of them: O = O / l is stored. Some: leave the piece; count it; who counts last
 *         merges the item's pieces by ⊕ (runs.cuh)
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim] or pages of a pool
 * [pool_pages, kv_heads, page_size, head_dim], elements of type T; LSE [batch, heads, seq_q],
 * float; row-major. HEAD_DIM is head_dim rounded up to 64 or 128, the rest zeros.
 *
 * No block waits for another, so that nothing depends on their order: whoever comes last finds all
 * pieces there. A fence on both sides of the counter says so: what was stored before the addition
 * is seen by who reads after it. Pieces are merged in their order in the line, whoever does it: the
 * same call gives the same bits.
 *
 * Cost: as decode_async's with its pieces for runs, of which there are at most two a block; and
 * each warp reads all lengths, where there are any, twice.
 *
 * Source: NVIDIA, CUDA C++ Programming Guide, memory fence functions (the last block sums); equal
 * shares are Stream-K's (Osama and others, arXiv:2301.03598).
 */
#include "06_causal_half/06_step.h"
#include "device/device.h"
#include "row_tile.cuh"

/* Tiles that the ring holds: 96 KB, so that two blocks share a multiprocessor. */
static constexpr __host__ __device__ int stages_of(int head_dim)
{
    return head_dim == 64 ? 6 : 3;
}

template <typename T, int HEAD_DIM>
union shared_memory {
    struct key_tile<T, HEAD_DIM> tile[stages_of(HEAD_DIM)];
    struct warp_states<HEAD_DIM> states;
};

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

template <typename T, int HEAD_DIM, int ROW_WARPS>
__global__ void __launch_bounds__(THREADS, DECODE_BALANCED_RESIDENT)
    decode_balanced(const T *Q, const T *K, const T *V, struct decode_output out,
                    unsigned int *counters, struct attention shape, struct balanced_plan plan)
{
    constexpr int KEY_WARPS = WARPS / ROW_WARPS, WARP_KEYS = Bc / KEY_WARPS;
    constexpr int STAGES = stages_of(HEAD_DIM);
    extern __shared__ __align__(1024) char memory[];
    union shared_memory<T, HEAD_DIM> &shared = *(union shared_memory<T, HEAD_DIM> *)memory;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int row_tiles = plan.items / shape.kv_heads;
    const int warp_key = warp % KEY_WARPS * WARP_KEYS;

    /* The rows this lane names to ldmatrix, as in mma. */
    const uint32_t lane_K = shared_address(
        &shared.tile[0].K[swizzled(warp_key + lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8)]);
    const uint32_t lane_V =
        shared_address(&shared.tile[0].V[swizzled(warp_key + lane % 16, lane / 16 * 8)]);

    const struct share share = plan.share > 0 ? share_as_cut(shape, plan) : share_of(shape, plan);
    int batch = share.batch, item = share.item, unit = share.unit, tiles;
    for (long long done = 0; done < share.units; done += tiles) {
        const int kv_head = batch * shape.kv_heads + item / row_tiles;
        const int row0 = item % row_tiles * plan.tile_rows;
        const int length = sequence_keys(shape, kv_head), keys = max(length, 0);
        const int units = balanced_units(keys);
        tiles = (int)min((long long)(units - unit), share.units - done);
        const int rows = min(16 * ROW_WARPS, plan.head_rows - row0);
        const int seen_by_any = decode_seen_by_any(shape, row0, rows, keys);
        const int first_key = unit * Bc;
        const int end = min(seen_by_any, first_key + tiles * Bc);
        const struct key_rows where = key_rows_of(shape, kv_head);
        const int head_row0 = kv_head * plan.head_rows;

        struct warp_rows<HEAD_DIM> own;
        begin_rows<T>(own, Q + (size_t)head_row0 * shape.head_dim, shape,
                      row0 + warp / KEY_WARPS * 16, plan.head_rows, keys);
        own.seen_by_all = decode_seen_by_all(shape, row0, rows, keys);

        const int seen_tiles = end > first_key ? ceil_div(end - first_key, Bc) : 0;
        for (int ahead = 0; ahead < STAGES - 1; ahead++) {
            if (ahead < seen_tiles)
                copy_tile(&shared.tile[ahead], K, V, where, first_key + ahead * Bc, end,
                          shape.head_dim);
            cp_async_commit();
        }
        for (int tile = 0; tile < seen_tiles; tile++) {
            const int stage = tile % STAGES, next = tile + STAGES - 1;
            cp_async_wait<STAGES - 2>();
            /* Every thread's copies into this stage are there; and all warps are done with the
             * stage before it, which is filled next. */
            __syncthreads();
            if (next < seen_tiles)
                copy_tile(&shared.tile[next % STAGES], K, V, where, first_key + next * Bc, end,
                          shape.head_dim);
            cp_async_commit();
            const uint32_t to_stage = stage * sizeof shared.tile[0];
            attend<T, HEAD_DIM, WARP_KEYS>(own, lane_K + to_stage, lane_V + to_stage,
                                           first_key + tile * Bc + warp_key);
        }

        __syncthreads(); /* all warps are done with the tiles, whose place the states take */
        leave_state(&shared.states, own);
        __syncthreads(); /* every warp has left its state before any thread merges them */
        const struct balanced_pieces pieces =
            balanced_pieces_of(share.begin + done - unit, units, share.each);
        const int place = balanced_place(pieces, blockIdx.x - pieces.first_block);
        out.runs = pieces.count;
        if (pieces.count == 1) {
            merge_warps<T, HEAD_DIM, ROW_WARPS>(&shared.states, out, 0, head_row0 + row0, rows,
                                                length < 0);
            __syncthreads(); /* the states are merged before tiles of the next item lie there */
        } else {
            merge_warps<T, HEAD_DIM, ROW_WARPS>(&shared.states, out, place, 0, rows, false);
            __threadfence(); /* release: whoever sees the count sees this thread's part */
            __syncthreads(); /* every thread has stored its part before the piece counts */
            const bool last =
                __syncthreads_or(threadIdx.x == 0 &&
                                 atomicAdd(&counters[pieces.first_block], 1u) == pieces.count - 1u);
            if (last) {
                __threadfence(); /* acquire: the pieces are not read before they were counted */
                merge_pieces<T, HEAD_DIM>(out, pieces, head_row0 + row0, rows);
            }
        }

        unit = 0;
        item++;
        if (item == plan.items) {
            item = 0;
            batch++;
        }
    }
}

template <typename T, int HEAD_DIM, int ROW_WARPS>
static cudaError_t launch(const struct attention *call)
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
    const int bytes = sizeof(union shared_memory<T, HEAD_DIM>);
    status = cudaFuncSetAttribute((const void *)decode_balanced<T, HEAD_DIM, ROW_WARPS>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status == cudaSuccess && merges)
        status = cudaMemsetAsync(counters, 0, plan.blocks * sizeof *counters, call->stream);
    if (status != cudaSuccess)
        return status;
    decode_balanced<T, HEAD_DIM, ROW_WARPS><<<plan.blocks, THREADS, bytes, call->stream>>>(
        (const T *)call->Q, (const T *)call->K, (const T *)call->V, out, counters, *call, plan);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_decode_balanced(const struct attention *call)
{
    return LAUNCH_ROWS(call);
}
