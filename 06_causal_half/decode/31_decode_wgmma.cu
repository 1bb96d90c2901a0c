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

/* Tiles that the ring holds: 96 KB, so that with Q two blocks share a multiprocessor. */
static constexpr __host__ __device__ int stages_of(int head_dim)
{
    return head_dim == 64 ? 6 : 3;
}

static const int ROWS = 64;

template <typename T, int HEAD_DIM>
struct shared_memory {
    union {
        struct key_tile<T, HEAD_DIM> tile[stages_of(HEAD_DIM)];
        struct warp_states<HEAD_DIM> states;
    };
    T Q[ROWS * HEAD_DIM];
};

/* Puts the warp's rows of Q where wgmma reads them. ROWS rows are a panel, as Bc rows of keys. */
template <typename T, int HEAD_DIM>
static __device__ __forceinline__ void keep_queries(T *Q, const struct warp_rows<HEAD_DIM> &own)
{
    static_assert(ROWS == Bc, "swizzled() knows panels of Bc rows");
    const int lane = threadIdx.x % WARP, first_row = threadIdx.x / WARP * 16;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 8)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int place = swizzled(first_row + lane / ROW_LANES + 8 * r, d);
            *(uint32_t *)&Q[place + lane % ROW_LANES * 2] = own.q[d / 16][d % 16 / 8 * 2 + r];
        }
}

/* Adds a tile of keys, of which the first is first_key, to all rows. */
template <typename T, int HEAD_DIM>
static __device__ __forceinline__ void attend_together(struct warp_rows<HEAD_DIM> &own, const T *Q,
                                                       const struct key_tile<T, HEAD_DIM> *tile,
                                                       int first_key)
{
    float S[Bc / 2];
    const uint64_t q = wgmma_descriptor(shared_address(Q), 0, 8 * ROW_BYTES);
    const uint64_t k = wgmma_descriptor(shared_address(tile->K), 0, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
        const int bytes = d / PANEL_COLS * Bc * ROW_BYTES + d % PANEL_COLS * 2;
        wgmma_shared<Bc, T>(S, wgmma_descriptor_at(q, bytes), wgmma_descriptor_at(k, bytes), d > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(S);

    if (first_key + Bc > own.seen_by_all)
        mask_scores(S, first_key, own.visible);
    float rescale[2];
    online_softmax(S, own.m, own.l, rescale, own.scale_log2);
    scale_rows(own.acc, rescale);
    uint32_t P[Bc / 4];
    pack_rows<T>(P, S);

    const uint64_t v = wgmma_descriptor(shared_address(tile->V), Bc * ROW_BYTES, 8 * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int n = 0; n < Bc; n += 16)
        wgmma_registers<HEAD_DIM, T>(own.acc, &P[n / 4], wgmma_descriptor_at(v, n * ROW_BYTES), 1);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(own.acc);
    wgmma_hold(P);
}

template <typename T, int HEAD_DIM>
__global__ void __launch_bounds__(THREADS, DECODE_BALANCED_RESIDENT)
    decode_wgmma(const T *Q, const T *K, const T *V, const struct decode_output out,
                 unsigned int *counters, struct attention shape, struct balanced_plan plan)
{
    constexpr int STAGES = stages_of(HEAD_DIM);
    extern __shared__ __align__(1024) char memory[];
    struct shared_memory<T, HEAD_DIM> &shared = *(struct shared_memory<T, HEAD_DIM> *)memory;
    const int row_tiles = plan.items / shape.kv_heads;

    const struct share share = plan.share > 0 ? share_as_cut(shape, plan) : share_of(shape, plan);
    int batch = share.batch, item = share.item, unit = share.unit, tiles;
    for (long long done = 0; done < share.units; done += tiles) {
        const int kv_head = batch * shape.kv_heads + item / row_tiles;
        const int row0 = item % row_tiles * plan.tile_rows;
        const int length = sequence_keys(shape, kv_head), keys = max(length, 0);
        const int units = balanced_units(keys);
        tiles = (int)min((long long)(units - unit), share.units - done);
        const int rows = min(ROWS, plan.head_rows - row0);
        const int seen_by_any = decode_seen_by_any(shape, row0, rows, keys);
        const int first_key = unit * Bc;
        const int end = min(seen_by_any, first_key + tiles * Bc);
        const struct key_rows where = key_rows_of(shape, kv_head);
        const int head_row0 = kv_head * plan.head_rows;

        struct warp_rows<HEAD_DIM> own;
        begin_rows<T>(own, Q + (size_t)head_row0 * shape.head_dim, shape,
                      row0 + threadIdx.x / WARP * 16, plan.head_rows, keys);
        own.seen_by_all = decode_seen_by_all(shape, row0, rows, keys);

        const int seen_tiles = end > first_key ? ceil_div(end - first_key, Bc) : 0;
        for (int ahead = 0; ahead < STAGES - 1; ahead++) {
            if (ahead < seen_tiles)
                copy_tile(&shared.tile[ahead], K, V, where, first_key + ahead * Bc, end,
                          shape.head_dim);
            cp_async_commit();
        }
        keep_queries<T, HEAD_DIM>(shared.Q, own); /* they come while tiles are on their way */
        for (int tile = 0; tile < seen_tiles; tile++) {
            const int stage = tile % STAGES, next = tile + STAGES - 1;
            cp_async_wait<STAGES - 2>();
            async_proxy_fence(); /* wgmma sees this thread's copies, and its rows of Q */
            /* Every thread's copies into this stage are there; and all warps are done with the
             * stage before it, which is filled next. */
            __syncthreads();
            if (next < seen_tiles)
                copy_tile(&shared.tile[next % STAGES], K, V, where, first_key + next * Bc, end,
                          shape.head_dim);
            cp_async_commit();
            attend_together<T, HEAD_DIM>(own, shared.Q, &shared.tile[stage], first_key + tile * Bc);
        }

        __syncthreads(); /* all warps are done with the tiles, whose place the states take */
        leave_state(&shared.states, own);
        __syncthreads(); /* every warp has left its state before any thread merges them */
        const struct balanced_pieces pieces =
            balanced_pieces_of(share.begin + done - unit, units, share.each);
        end_item<T, HEAD_DIM, ROWS / 16>(&shared.states, out, counters, pieces, head_row0 + row0,
                                         rows, length < 0);

        unit = 0;
        item++;
        if (item == plan.items) {
            item = 0;
            batch++;
        }
    }
}

template <typename T, int HEAD_DIM>
static cudaError_t launch(const struct attention *call)
{
    return launch_shares<T>(call, sizeof(struct shared_memory<T, HEAD_DIM>),
                            decode_wgmma<T, HEAD_DIM>);
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
