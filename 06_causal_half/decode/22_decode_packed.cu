// needs: sm_80
/*
 * Idea: the query heads that share a kv head are packed: their queries are the rows of one product,
 * so K and V are read once for up to 64 of them, and the tensor cores multiply them.
 *
 *     rows of a kv head: (head 0, query 0), (head 0, query 1) .. (head 1, query 0) ..
 *     for each tile of Bc keys of the run that some row sees:
 *         S = Q·Kᵀ                        m_new = max(m, rowmax S)               c = scale · log2 e
 *         P = 2^(c · S - c · m_new)            l     = l · 2^(c · m - c · m_new) + rowsum P
 *                                              O     = O · 2^(c · m - c · m_new) + P·V
 *     warps, then runs: (m, l, O) merged by ⊕ (runs.cuh), at the end O = O / l
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim] or pages of a pool
 * [pool_pages, kv_heads, page_size, head_dim], elements of type T; LSE [batch, heads, seq_q],
 * float; row-major. HEAD_DIM is head_dim rounded up to 64 or 128, the rest zeros.
 *
 * Those rows are neighbours in Q and in O. A block takes 16, 32 or 64 of them, row_tile.cuh says
 * how its four warps share them and the keys. Fewer rows than 16 are filled with zeros: that costs
 * products, of which there are plenty, and no byte.
 *
 * Cost: n rows of a kv head in T tiles, s runs: T · 2 · keys · head_dim / 8 loads of K and V a kv
 * head; n · s · KEY_WARPS · head_dim / 2 of Q; with s > 1 as in decode_split for the runs.
 *
 * Source: Dao and others, the packing of grouped queries in FlashAttention-2 and -3.
 */
#include "06_causal_half/06_step.h"
#include "device/device.h"
#include "row_tile.cuh"

template <typename T, int HEAD_DIM>
union shared_memory {
    struct key_tile<T, HEAD_DIM> tile;
    struct warp_states<HEAD_DIM> states;
};

template <typename T, int HEAD_DIM, int ROW_WARPS>
__global__ void __launch_bounds__(THREADS, DECODE_PACKED_RESIDENT)
    decode_packed(const T *Q, const T *K, const T *V, const struct decode_output out,
                  struct attention shape, struct decode_plan plan)
{
    constexpr int KEY_WARPS = WARPS / ROW_WARPS, WARP_KEYS = Bc / KEY_WARPS;
    __shared__ __align__(1024) union shared_memory<T, HEAD_DIM> shared;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const struct decode_part part = decode_part_of(plan, blockIdx.x);
    const int length = sequence_keys(shape, part.kv_head), keys = max(length, 0);
    const int rows = min(16 * ROW_WARPS, plan.head_rows - part.row0);
    const int seen_by_any = decode_seen_by_any(shape, part.row0, rows, keys);
    const int end = decode_end_of(plan, part, seen_by_any);
    const struct key_rows where = key_rows_of(shape, part.kv_head);
    const int head_row0 = part.kv_head * plan.head_rows;
    const int warp_key = warp % KEY_WARPS * WARP_KEYS;

    struct warp_rows<HEAD_DIM> own;
    begin_rows<T>(own, Q + (size_t)head_row0 * shape.head_dim, shape,
                  part.row0 + warp / KEY_WARPS * 16, plan.head_rows, keys);
    own.seen_by_all = decode_seen_by_all(shape, part.row0, rows, keys);

    /* The rows this lane names to ldmatrix, as in mma. */
    const uint32_t lane_K = shared_address(
        &shared.tile.K[swizzled(warp_key + lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8)]);
    const uint32_t lane_V =
        shared_address(&shared.tile.V[swizzled(warp_key + lane % 16, lane / 16 * 8)]);

    for (int k0 = part.first_key; k0 < end; k0 += Bc) {
        copy_tile(&shared.tile, K, V, where, k0, end, shape.head_dim);
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads(); /* the tile is complete before any warp multiplies it */
        attend<T, HEAD_DIM, WARP_KEYS>(own, lane_K, lane_V, k0 + warp_key);
        __syncthreads(); /* all warps are done with the tile, which the next one replaces */
    }

    leave_state(&shared.states, own);
    __syncthreads(); /* every warp has left its state before any thread merges them */
    merge_warps<T, HEAD_DIM, ROW_WARPS>(&shared.states, out, part.run, head_row0 + part.row0, rows,
                                        length < 0);
}

template <typename T, int HEAD_DIM, int ROW_WARPS>
static cudaError_t launch(const struct attention *call)
{
    struct device_limits device;
    cudaError_t status = current_device(&device);
    if (status != cudaSuccess)
        return status;
    const struct decode_plan plan =
        decode_plan_of(call, 16 * ROW_WARPS, DECODE_PACKED_RESIDENT, &device);
    const struct decode_output out =
        decode_output_of(call, plan.runs, (int)attention_query_rows(call));
    decode_packed<T, HEAD_DIM, ROW_WARPS><<<plan.blocks, THREADS, 0, call->stream>>>(
        (const T *)call->Q, (const T *)call->K, (const T *)call->V, out, *call, plan);
    status = cudaGetLastError();
    return status == cudaSuccess && plan.runs > 1 ? launch_merge<T, HEAD_DIM>(out, call->stream)
                                                  : status;
}

extern "C" cudaError_t attention_decode_packed(const struct attention *call)
{
    return LAUNCH_ROWS(call);
}
