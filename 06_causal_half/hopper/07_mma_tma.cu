// needs: sm_90
/*
 * Idea: one thread requests whole tiles from the copy engine; the others only wait for them.
 *
 *     for each tile of Bc keys that some query of the tile sees, last to first:
 *         S = Q·Kᵀ                        m_new = max(m, rowmax S)               c = scale · log2 e
 *         P = 2^(c · S - c · m_new)            l     = l · 2^(c · m - c · m_new) + rowsum P
 *                                              O     = O · 2^(c · m - c · m_new) + P·V
 *     at the end:  O = O / l                   LSE   = (c · m + log2 l) · ln 2
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], elements of type
 * T; LSE [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim, a multiple of 8, rounded up
 * to 64 or 128, the rest zeros.
 *
 * TMA brings a tile with one instruction per panel, swizzled as mma_swizzled's, with zeros where
 * the array ends, and counts its bytes on an mbarrier. A stage's mbarrier is full once per use: its
 * phase tells one use from the next. That no warp still reads a stage is said by the barrier of the
 * block, as before. Products and softmax are mma_ordered's, but from the last keys to the first, as
 * in all later rungs: what must be masked comes first.
 *
 * Cost: as mma_ordered's; a copy is one instruction of one thread instead of one for every 16
 * bytes, and no thread computes addresses or bounds.
 *
 * Source: PTX ISA, cp.async.bulk.tensor and mbarrier.
 */
#include "tma_tiles.cuh"
#include "06_causal_half/06_step.h"
#include "06_causal_half/score_rows.cuh"
#include "06_causal_half/tile_order.cuh"

static const int Br = 128;
static const int WARP_ROWS = 32;
static const int BLOCKS = WARP_ROWS / 16; /* of 16 rows, that a warp owns */
static const int THREADS = Br / WARP_ROWS * WARP;
static const int STAGES = 2;

/*
 * Bc. S takes Bc registers of a thread, O takes HEAD_DIM of them. At HEAD_DIM 128 that leaves room
 * for two blocks on a multiprocessor (255 registers a thread); at HEAD_DIM 64 there is room for
 * three (168) if Bc is a little smaller.
 */
static constexpr __host__ __device__ int tile_keys(int head_dim)
{
    return head_dim == 64 ? 48 : 64;
}

template <typename T, int HEAD_DIM>
struct shared_tiles {
    T Q[Br * HEAD_DIM];
    T K[STAGES][tile_keys(HEAD_DIM) * HEAD_DIM];
    T V[STAGES][tile_keys(HEAD_DIM) * HEAD_DIM];
    uint64_t Q_full, full[STAGES];
};

/* Where in a tile the 8 elements of row `row` from column `col`, a multiple of 8, begin. */
template <int ROWS>
static __device__ __forceinline__ int swizzled(int row, int col)
{
    return (col / PANEL_COLS * ROWS + row) * PANEL_COLS + (col % PANEL_COLS ^ row % 8 * 8);
}

/*
 * The address of features d .. d + 15 of a row whose features 0 .. 15 are at `address`; d is a
 * multiple of 16. Chunks are permuted within a row, so inside of a panel the way is an exclusive
 * or. To another row a multiple of 8 away it is a plain distance.
 */
template <int ROWS>
static __device__ __forceinline__ uint32_t features_on(uint32_t address, int d)
{
    return (address ^ d % PANEL_COLS * 2) + d / PANEL_COLS * ROWS * ROW_BYTES;
}

/* Requests the keys and values from k0 on, into their stage. */
template <typename T, int HEAD_DIM>
static __device__ __forceinline__ void load_keys(struct shared_tiles<T, HEAD_DIM> &tiles,
                                                 const struct attention_maps &maps, int k0,
                                                 int kv_head)
{
    constexpr int Bc = tile_keys(HEAD_DIM);
    const int stage = k0 / Bc % STAGES;
    mbarrier_arrive_expect(&tiles.full[stage], sizeof tiles.K[stage] + sizeof tiles.V[stage]);
    load_panels<Bc, HEAD_DIM>(tiles.K[stage], &maps.K, k0, kv_head, &tiles.full[stage]);
    load_panels<Bc, HEAD_DIM>(tiles.V[stage], &maps.V, k0, kv_head, &tiles.full[stage]);
}

template <typename T, int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, HEAD_DIM == 64 ? 3 : 2)
    flash_mma_tma(const __grid_constant__ struct attention_maps maps, T *O, float *LSE,
                  struct attention shape, struct tile_order order)
{
    constexpr int Bc = tile_keys(HEAD_DIM), STAGE_BYTES = Bc * HEAD_DIM * sizeof(T);
    extern __shared__ __align__(1024) char shared_memory[];
    struct shared_tiles<T, HEAD_DIM> &tiles = *(struct shared_tiles<T, HEAD_DIM> *)shared_memory;

    const int seq_q = shape.seq_q, seq_kv = shape.seq_kv, head_dim = shape.head_dim;
    const struct tile_place place = tile_place_of(order, blockIdx.x, Br);
    const int head = place.head, row0 = place.row0; /* the head over all batches */
    const int kv_head = head / (shape.heads / shape.kv_heads);
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int warp_row = row0 + warp * WARP_ROWS;

    O += (size_t)head * seq_q * head_dim;
    LSE = LSE == NULL ? NULL : LSE + (size_t)head * seq_q;

    const float scale_log2 = shape.scale * LOG2_E;
    const int seen_by_all = visible_keys<CAUSAL>(row0, seq_q, seq_kv);
    const int seen_by_any = visible_keys<CAUSAL>(row0 + Br - 1, seq_q, seq_kv);
    const int last_k0 = (ceil_div(seen_by_any, Bc) - 1) * Bc; /* negative where no key is seen */
    float m[BLOCKS][2] = {{-CUDART_INF_F, -CUDART_INF_F}, {-CUDART_INF_F, -CUDART_INF_F}};
    float l[BLOCKS][2] = {}, acc[BLOCKS][HEAD_DIM / 2] = {};

    /* The rows this lane names to ldmatrix, as in mma. */
    const uint32_t lane_Q =
        shared_address(&tiles.Q[swizzled<Br>(warp * WARP_ROWS + lane % 16, lane / 16 * 8)]);
    const uint32_t lane_K =
        shared_address(&tiles.K[0][swizzled<Bc>(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8)]);
    const uint32_t lane_V = shared_address(&tiles.V[0][swizzled<Bc>(lane % 16, lane / 16 * 8)]);

    if (threadIdx.x == 0) {
        mbarrier_init(&tiles.Q_full, 1);
        for (int stage = 0; stage < STAGES; stage++)
            mbarrier_init(&tiles.full[stage], 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect(&tiles.Q_full, sizeof tiles.Q);
        load_panels<Br, HEAD_DIM>(tiles.Q, &maps.Q, row0, head, &tiles.Q_full);
        if (last_k0 >= 0)
            load_keys(tiles, maps, last_k0, kv_head);
    }
    __syncthreads(); /* the barriers exist before any thread waits on them */
    mbarrier_wait(&tiles.Q_full, 0);

    int use = 0; /* counts tiles modulo 2 · STAGES: the first STAGES wait with parity 0 */
    for (int k0 = last_k0; k0 >= 0; k0 -= Bc) {
        const int stage = k0 / Bc % STAGES;
        mbarrier_wait(&tiles.full[stage], use / STAGES);
        use = (use + 1) % (2 * STAGES);
        __syncthreads(); /* all warps are done with the other stage, which is filled next */
        if (threadIdx.x == 0 && k0 > 0)
            load_keys(tiles, maps, k0 - Bc, kv_head);

        float S[BLOCKS][Bc / 2] = {};
#pragma unroll
        for (int d = 0; d < HEAD_DIM; d += 16) {
            uint32_t q[BLOCKS][4];
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                ldmatrix_x4(q[b], features_on<Br>(lane_Q, d) + 16 * b * ROW_BYTES);
#pragma unroll
            for (int n = 0; n < Bc; n += 16) {
                uint32_t k[4];
                ldmatrix_x4(k, features_on<Bc>(lane_K + stage * STAGE_BYTES, d) + n * ROW_BYTES);
#pragma unroll
                for (int b = 0; b < BLOCKS; b++)
                    mma_m16n16k16<T>(&S[b][n / 2], q[b], k);
            }
        }

        uint32_t P[BLOCKS][Bc / 4];
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            if (k0 + Bc > seen_by_all) {
                int visible[2];
                find_visible<CAUSAL>(visible, warp_row + 16 * b, seq_q, seq_kv);
                mask_scores(S[b], k0, visible);
            }
            float rescale[2];
            online_softmax(S[b], m[b], l[b], rescale, scale_log2);
            scale_rows(acc[b], rescale);
            pack_rows<T>(P[b], S[b]);
        }

#pragma unroll
        for (int n = 0; n < Bc; n += 16)
#pragma unroll
            for (int d = 0; d < HEAD_DIM; d += 16) {
                uint32_t v[4];
                ldmatrix_x4_transposed(v, features_on<Bc>(lane_V + stage * STAGE_BYTES, d) +
                                              n * ROW_BYTES);
#pragma unroll
                for (int b = 0; b < BLOCKS; b++)
                    mma_m16n16k16<T>(&acc[b][d / 2], &P[b][n / 4], v);
            }
    }

    __syncthreads(); /* Q has been read before O replaces it */
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        finish_rows(acc[b], m[b], l[b], LSE, warp_row + 16 * b, seq_q, scale_log2);
        uint32_t packed[HEAD_DIM / 4];
        pack_rows<T>(packed, acc[b]);
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 4; i++) {
            const int row = warp * WARP_ROWS + 16 * b + lane / ROW_LANES + 8 * (i % 2);
            *(uint32_t *)&tiles.Q[swizzled<Br>(row, 8 * (i / 2)) + lane % ROW_LANES * 2] =
                packed[i];
        }
    }
    __syncwarp(); /* the warp's rows of O are complete before they are read along the rows */
    constexpr int LANES = HEAD_DIM / 8;
#pragma unroll
    for (int i = 0; i < WARP_ROWS; i += WARP / LANES) {
        const int row = warp * WARP_ROWS + i + lane / LANES, col = lane % LANES * 8;
        if (row0 + row < seq_q && col < head_dim)
            *(uint4 *)&O[(size_t)(row0 + row) * head_dim + col] =
                *(const uint4 *)&tiles.Q[swizzled<Br>(row, col)];
    }
}

template <typename T, int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention *call)
{
    const struct tile_order order = tile_order_of(call, Br);
    const int bytes = sizeof(struct shared_tiles<T, HEAD_DIM>);
    struct attention_maps maps;
    cudaError_t status = attention_maps_of(&maps, call, Br, tile_keys(HEAD_DIM));
    if (status == cudaSuccess)
        status = cudaFuncSetAttribute((const void *)flash_mma_tma<T, HEAD_DIM, CAUSAL>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess)
        return status;
    flash_mma_tma<T, HEAD_DIM, CAUSAL><<<order.tiles, THREADS, bytes, call->stream>>>(
        maps, (T *)call->O, call->LSE, *call, order);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_mma_tma(const struct attention *call)
{
    return LAUNCH(call);
}
