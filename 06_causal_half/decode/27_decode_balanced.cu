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
 * pieces there. The addition to the counter releases and acquires: what was stored before it is
 * seen by who counts after it. Pieces are merged in their order in the line, whoever does it: the
 * same call gives the same bits.
 *
 * Cost: as decode_async's with its pieces for runs, of which there are at most two a block; and
 * each warp reads all lengths, where there are any, twice.
 *
 * Source: NVIDIA, CUDA C++ Programming Guide, memory fence functions (the last block sums); equal
 * shares are Stream-K's (Osama and others, arXiv:2301.03598).
 */
#include "06_causal_half/06_step.h"
#include "row_tile.cuh"
#include "shares.cuh"

/* Tiles that the ring holds: 96 KB, so that two blocks share an H100's multiprocessor. */
static constexpr __host__ __device__ int stages_of(int head_dim)
{
    return head_dim == 64 ? 6 : 3;
}

template <typename T, int HEAD_DIM>
union shared_memory {
    struct key_tile<T, HEAD_DIM> tile[stages_of(HEAD_DIM)];
    struct warp_states<HEAD_DIM> states;
};

template <typename T, int HEAD_DIM, int ROW_WARPS>
__global__ void __launch_bounds__(THREADS, DECODE_BALANCED_RESIDENT)
    decode_balanced(const T *Q, const T *K, const T *V, const struct decode_output out,
                    unsigned int *counters, struct attention shape, struct balanced_plan plan)
{
    constexpr int KEY_WARPS = WARPS / ROW_WARPS, WARP_KEYS = Bc / KEY_WARPS;
    constexpr int STAGES = stages_of(HEAD_DIM);
    extern __shared__ __align__(1024) char memory[];
    union shared_memory<T, HEAD_DIM> &shared = *(union shared_memory<T, HEAD_DIM> *)memory;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int warp_key = warp % KEY_WARPS * WARP_KEYS;

    /* The rows this lane names to ldmatrix, as in mma. */
    const uint32_t lane_K = shared_address(
        &shared.tile[0].K[swizzled(warp_key + lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8)]);
    const uint32_t lane_V =
        shared_address(&shared.tile[0].V[swizzled(warp_key + lane % 16, lane / 16 * 8)]);

    struct share left = plan.share > 0 ? share_as_cut(shape, plan) : share_of(shape, plan);
    while (left.units > 0) {
        const struct part part = part_of(shape, plan, left);
        const int keys = max(part.length, 0), tiles = tiles_of(part, Bc);
        const struct key_rows where = key_rows_of(shape, part.kv_head);

        struct warp_rows<HEAD_DIM> own;
        begin_rows<T>(own, Q + (size_t)part.kv_head * plan.head_rows * shape.head_dim, shape,
                      part.row0 + warp / KEY_WARPS * 16, plan.head_rows, keys);
        own.seen_by_all = decode_seen_by_all(shape, part.row0, part.rows, keys);

        for (int ahead = 0; ahead < STAGES - 1; ahead++) {
            if (ahead < tiles)
                copy_tile(&shared.tile[ahead], K, V, where, part.first_key + ahead * Bc, part.end,
                          shape.head_dim);
            cp_async_commit();
        }
        for (int tile = 0; tile < tiles; tile++) {
            const int stage = tile % STAGES, next = tile + STAGES - 1;
            cp_async_wait<STAGES - 2>();
            /* Every thread's copies into this stage are there; and all warps are done with the
             * stage before it, which is filled next. */
            __syncthreads();
            if (next < tiles)
                copy_tile(&shared.tile[next % STAGES], K, V, where, part.first_key + next * Bc,
                          part.end, shape.head_dim);
            cp_async_commit();
            const uint32_t to_stage = stage * sizeof shared.tile[0];
            attend<T, HEAD_DIM, WARP_KEYS>(own, lane_K + to_stage, lane_V + to_stage,
                                           part.first_key + tile * Bc + warp_key);
        }

        __syncthreads(); /* all warps are done with the tiles, whose place the states take */
        leave_state(&shared.states, own);
        __syncthreads(); /* every warp has left its state before any thread merges them */
        end_item<T, HEAD_DIM, ROW_WARPS>(&shared.states, out, counters,
                                         open_item_of(part, left, plan), part.length < 0);
        __syncthreads(); /* the states are merged before tiles of the next item lie there */
        leave_part(left, plan, part);
    }
}

template <typename T, int HEAD_DIM, int ROW_WARPS>
static cudaError_t launch(const struct attention *call)
{
    return launch_balanced<T>(call, decode_balanced<T, HEAD_DIM, ROW_WARPS>,
                              sizeof(union shared_memory<T, HEAD_DIM>));
}

extern "C" cudaError_t attention_decode_balanced(const struct attention *call)
{
    return LAUNCH_ROWS(call);
}
