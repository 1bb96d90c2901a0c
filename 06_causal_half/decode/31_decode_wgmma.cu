// needs: sm_90a
/*
 * Idea: with 64 rows, four warps multiply as one, and read each tile of keys once.
 *
 *     line up the units, and take a share of them, as decode_balanced
 *     for each item of which some units are in the share:
 *         Q's 64 rows to shared memory
 *         for each tile of Bc keys that some row sees:
 *             S = Q·Kᵀ        by wgmma, from shared memory
 *             P, m, l         as decode_async
 *             O += P·V        by wgmma, P from registers
 *         the piece is left, or the rows are stored, as decode_balanced
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim] or pages of a pool
 * [pool_pages, kv_heads, page_size, head_dim], elements of type T; LSE [batch, heads, seq_q],
 * float; row-major. HEAD_DIM is head_dim rounded up to 64 or 128, the rest zeros.
 *
 * decode_balanced's warps each have 16 of the rows and read all of K and V: four times from shared
 * memory. wgmma has 64 rows, and its four warps read K and V once. A tile lies as it did, since a
 * swizzled panel is what wgmma takes; cp.async stores it, pages and all. With up to 32 rows there
 * is less to share: decode_balanced does those.
 *
 * Copies by cp.async are ordinary stores, and tensor cores read through the asynchronous proxy: a
 * thread fences what it has copied before the barrier that hands it over.
 *
 * Cost: global traffic as decode_balanced's. Shared: wgmma reads a tile once, 4 · Bc · HEAD_DIM
 * bytes, and Q.
 *
 * Source: PTX ISA, wgmma and proxies; FlashAttention-3's decoding packs rows in the same way
 * (github.com/Dao-AILab/flash-attention).
 */
#include "06_causal_half/06_step.h"
#include "row_tile.cuh"
#include "shares.cuh"
#include "warpgroup_tile.cuh"

/* Tiles that the ring holds: 96 KB, so that with Q two blocks share a multiprocessor. */
static constexpr __host__ __device__ int stages_of(int head_dim)
{
    return head_dim == 64 ? 6 : 3;
}

template <typename T, int HEAD_DIM>
struct shared_memory {
    union {
        struct key_tile<T, HEAD_DIM> tile[stages_of(HEAD_DIM)];
        struct warp_states<HEAD_DIM> states;
    };
    T Q[ROWS * HEAD_DIM];
};

template <typename T, int HEAD_DIM>
__global__ void __launch_bounds__(THREADS, DECODE_BALANCED_RESIDENT)
    decode_wgmma(const T *Q, const T *K, const T *V, const struct decode_output out,
                 unsigned int *counters, struct attention shape, struct balanced_plan plan)
{
    constexpr int STAGES = stages_of(HEAD_DIM);
    extern __shared__ __align__(1024) char memory[];
    struct shared_memory<T, HEAD_DIM> &shared = *(struct shared_memory<T, HEAD_DIM> *)memory;

    struct share left = plan.share > 0 ? share_as_cut(shape, plan) : share_of(shape, plan);
    while (left.units > 0) {
        const struct part part = part_of(shape, plan, left);
        const int keys = max(part.length, 0), tiles = tiles_of(part, Bc);
        const struct key_rows where = key_rows_of(shape, part.kv_head);

        struct warp_rows<HEAD_DIM> own;
        begin_rows<T>(own, Q + (size_t)part.kv_head * plan.head_rows * shape.head_dim, shape,
                      part.row0 + threadIdx.x / WARP * 16, plan.head_rows, keys);
        own.seen_by_all = decode_seen_by_all(shape, part.row0, part.rows, keys);

        for (int ahead = 0; ahead < STAGES - 1; ahead++) {
            if (ahead < tiles)
                copy_tile(&shared.tile[ahead], K, V, where, part.first_key + ahead * Bc, part.end,
                          shape.head_dim);
            cp_async_commit();
        }
        keep_queries<T, HEAD_DIM>(shared.Q, own); /* they come while tiles are on their way */
        for (int tile = 0; tile < tiles; tile++) {
            const int stage = tile % STAGES, next = tile + STAGES - 1;
            cp_async_wait<STAGES - 2>();
            async_proxy_fence(); /* wgmma sees this thread's copies, and its rows of Q */
            /* Every thread's copies into this stage are there; and all warps are done with the
             * stage before it, which is filled next. */
            __syncthreads();
            if (next < tiles)
                copy_tile(&shared.tile[next % STAGES], K, V, where, part.first_key + next * Bc,
                          part.end, shape.head_dim);
            cp_async_commit();
            attend_together<T, HEAD_DIM>(own, shared.Q, &shared.tile[stage],
                                         part.first_key + tile * Bc);
        }

        __syncthreads(); /* all warps are done with the tiles, whose place the states take */
        leave_state(&shared.states, own);
        __syncthreads(); /* every warp has left its state before any thread merges them */
        end_item<T, HEAD_DIM, ROWS / 16>(&shared.states, out, counters,
                                         open_item_of(part, left, plan), part.length < 0);
        __syncthreads(); /* the states are merged before tiles of the next item lie there */
        leave_part(left, plan, part);
    }
}

template <typename T, int HEAD_DIM>
static cudaError_t launch(const struct attention *call)
{
    return launch_balanced<T>(call, decode_wgmma<T, HEAD_DIM>,
                              sizeof(struct shared_memory<T, HEAD_DIM>));
}

extern "C" cudaError_t attention_decode_wgmma(const struct attention *call)
{
    if (decode_tile_rows(call) < ROWS)
        return attention_decode_balanced(call);
    if (call->type == TENSOR_BF16)
        return call->head_dim <= 64 ? launch<__nv_bfloat16, 64>(call)
                                    : launch<__nv_bfloat16, 128>(call);
    return call->head_dim <= 64 ? launch<__half, 64>(call) : launch<__half, 128>(call);
}
