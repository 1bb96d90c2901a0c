// needs: sm_80
/*
 * Idea: memory answers a request after most of a microsecond, so that many bytes must be on their
 * way at all times; a ring of stages is filled by cp.async that many tiles ahead.
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
 * Little's law: bytes on their way = bytes a second · seconds of an answer. An H200 gives each of
 * 132 multiprocessors 36 bytes a nanosecond and answers after 600 to 800: 22 to 29 KB, and more
 * where requests come in bursts. A block has STAGES · 32 KB · HEAD_DIM / 128 of shared memory, all
 * but one stage on its way, and two blocks share an H100's multiprocessor: 128 KB and more.
 *
 * Cost: as decode_packed's.
 *
 * Source: FlashAttention-2's cp.async pipeline; Little (1961).
 */
#include "06_causal_half/06_step.h"
#include "device/device.h"
#include "row_tile.cuh"

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
__global__ void __launch_bounds__(THREADS, DECODE_ASYNC_RESIDENT)
    decode_async(const T *Q, const T *K, const T *V, const struct decode_output out,
                 struct attention shape, struct decode_plan plan)
{
    constexpr int KEY_WARPS = WARPS / ROW_WARPS, WARP_KEYS = Bc / KEY_WARPS;
    constexpr int STAGES = stages_of(HEAD_DIM);
    extern __shared__ __align__(1024) char memory[];
    union shared_memory<T, HEAD_DIM> &shared = *(union shared_memory<T, HEAD_DIM> *)memory;
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
        &shared.tile[0].K[swizzled(warp_key + lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8)]);
    const uint32_t lane_V =
        shared_address(&shared.tile[0].V[swizzled(warp_key + lane % 16, lane / 16 * 8)]);

    const int tiles = end > part.first_key ? ceil_div(end - part.first_key, Bc) : 0;
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
        if (ahead < tiles)
            copy_tile(&shared.tile[ahead], K, V, where, part.first_key + ahead * Bc, end,
                      shape.head_dim);
        cp_async_commit();
    }
    for (int tile = 0; tile < tiles; tile++) {
        const int stage = tile % STAGES, next = tile + STAGES - 1;
        cp_async_wait<STAGES - 2>();
        /* Every thread's copies into this stage are there; and all warps are done with the stage
         * before it, which is filled next. */
        __syncthreads();
        if (next < tiles)
            copy_tile(&shared.tile[next % STAGES], K, V, where, part.first_key + next * Bc, end,
                      shape.head_dim);
        cp_async_commit();
        const uint32_t to_stage = stage * sizeof shared.tile[0];
        attend<T, HEAD_DIM, WARP_KEYS>(own, lane_K + to_stage, lane_V + to_stage,
                                       part.first_key + tile * Bc + warp_key);
    }

    __syncthreads(); /* all warps are done with the tiles, whose place the states take */
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
        decode_plan_of(call, 16 * ROW_WARPS, DECODE_ASYNC_RESIDENT, &device);
    const struct decode_output out =
        decode_output_of(call, plan.runs, (int)attention_query_rows(call));
    const int bytes = sizeof(union shared_memory<T, HEAD_DIM>);
    status = cudaFuncSetAttribute((const void *)decode_async<T, HEAD_DIM, ROW_WARPS>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess)
        return status;
    decode_async<T, HEAD_DIM, ROW_WARPS><<<plan.blocks, THREADS, bytes, call->stream>>>(
        (const T *)call->Q, (const T *)call->K, (const T *)call->V, out, *call, plan);
    status = cudaGetLastError();
    return status == cudaSuccess && plan.runs > 1 ? launch_merge<T, HEAD_DIM>(out, call->stream)
                                                  : status;
}

extern "C" cudaError_t attention_decode_async(const struct attention *call)
{
    return LAUNCH_ROWS(call);
}
