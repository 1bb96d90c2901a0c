// needs: sm_80
/*
 * Idea: the next tile is copied while this one is multiplied, into shared memory that wastes
 * nothing, and every value read from there is used twice as often.
 *
 *     for each tile of BN keys that some query of the tile sees:
 *         S = Q * K^T                     m_new = max(m, rowmax S)               c = scale * log2 e
 *         P = 2^(c * S - c * m_new)            l     = l * 2^(c * m - c * m_new) + rowsum P
 *                                              O     = O * 2^(c * m - c * m_new) + P * V
 *     at the end:  O = O / l                   LSE   = (c * m + log2 l) * ln 2
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], halves; LSE
 * [batch, heads, seq_q], float; row-major. HEAD_DIM is head_dim, a multiple of 8, rounded up to 64
 * or 128, the rest zeros.
 *
 * A block owns BM queries of one head, a warp 32 of them, as two blocks of 16: K and V are read
 * from shared memory by half as many warps, once for both. Their registers are full with S and O,
 * so Q stays in shared memory.
 *
 * K and V have two stages each. cp.async fills one while the other is used: no register holds the
 * bytes on their way and nobody waits for them; one barrier a tile says both "this stage is filled"
 * and "that stage is free". Two or three blocks share a multiprocessor: one's softmax runs under
 * another's products.
 *
 * Rows are not padded but swizzled: the 16-byte chunk c of row r is stored at chunk c ^ (r % 8), so
 * that the eight rows which ldmatrix reads at one c lie in eight different chunks, all 32 banks. O
 * leaves the same way, through the place of Q, and is stored 16 bytes a lane.
 *
 * Cost: global traffic as half's with this BM. Shared: per warp and tile 2 * (2 * BN + 32) *
 * HEAD_DIM bytes for 64 * BN * HEAD_DIM multiply-adds, about two thirds of what mma reads.
 *
 * Source: PTX ISA, cp.async; Dao, FlashAttention-2 (arXiv:2307.08691), section 3.3.
 */
#include "06_step.h"
#include "score_rows.cuh"
#include "tile_order.cuh"

static const int BM = 128;
static const int WARP_ROWS = 32;
static const int WARPS = BM / WARP_ROWS;
static const int THREADS = 32 * WARPS;
static const int STAGES = 2;

/*
 * BN. S takes BN registers of a thread, O takes HEAD_DIM of them. At HEAD_DIM 128 that leaves room
 * for two blocks on a multiprocessor (255 registers a thread); at HEAD_DIM 64 there is room for
 * three (168) if BN is a little smaller.
 */
static constexpr int tile_keys(int head_dim)
{
    return head_dim == 64 ? 48 : 64;
}

/* Where in a swizzled tile the 8 halves of row `row` from column `col` on begin; col is a multiple
 * of 8. */
template <int HEAD_DIM>
static __device__ __forceinline__ int swizzled(int row, int col)
{
    return row * HEAD_DIM + (col ^ row % 8 * 8);
}

template <int HEAD_DIM>
static __device__ __forceinline__ uint32_t swizzled_address(const __half *tile, int row, int col)
{
    return shared_address(&tile[swizzled<HEAD_DIM>(row, col)]);
}

/*
 * The address of features d .. d + 15 of a row whose features 0 .. 15 are at `address`; d is a
 * multiple of 16. Chunks are exchanged within a row, so the way is an exclusive or. To another row
 * a multiple of 8 away it is a plain distance.
 */
static __device__ __forceinline__ uint32_t features_on(uint32_t address, int d)
{
    return address ^ d * (uint32_t)sizeof(__half);
}

/* Starts the copy of rows 0 .. ROWS - 1 of `matrix` into a tile; what lies past `rows` or head_dim
 * becomes zero. */
template <int ROWS, int HEAD_DIM>
static __device__ __forceinline__ void copy_tile(__half *tile, const __half *matrix, int rows,
                                                 int head_dim)
{
    constexpr int LANES = HEAD_DIM / 8; /* threads side by side along a row */
    const int lane_row = threadIdx.x / LANES, col = threadIdx.x % LANES * 8;
    matrix += lane_row * head_dim + col;
#pragma unroll
    for (int row = 0; row < ROWS; row += THREADS / LANES) {
        const bool inside = row + lane_row < rows && col < head_dim;
        cp_async_16_zero_fill(swizzled_address<HEAD_DIM>(tile, row + lane_row, col), matrix,
                              inside ? 16 : 0);
        matrix += THREADS / LANES * head_dim;
    }
}

template <int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, HEAD_DIM == 64 ? 3 : 2)
    flash_mma_pipelined(const __half *Q, const __half *K, const __half *V, __half *O, float *LSE,
                        struct attention shape, struct tile_order order)
{
    constexpr int BN = tile_keys(HEAD_DIM);
    constexpr int BLOCKS = WARP_ROWS / 16; /* of 16 rows, that a warp owns */
    extern __shared__ __align__(1024) __half shared_tiles[];
    __half *tile_Q = shared_tiles;                      /* [BM][HEAD_DIM] */
    __half *tiles_K = tile_Q + BM * HEAD_DIM;           /* [STAGES][BN][HEAD_DIM] */
    __half *tiles_V = tiles_K + STAGES * BN * HEAD_DIM; /* [STAGES][BN][HEAD_DIM] */
    constexpr int ROW_BYTES = HEAD_DIM * sizeof(__half), STAGE_BYTES = BN * ROW_BYTES;

    const int seq_q = shape.seq_q, seq_kv = shape.seq_kv, head_dim = shape.head_dim;
    const struct tile_place place = tile_place_of(order, blockIdx.x, BM);
    const int head = place.head; /* over batch and heads */
    const int kv_head = head / (shape.heads / shape.kv_heads);
    const int row0 = place.row0;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = row0 + warp * WARP_ROWS;

    Q += ((size_t)head * seq_q + row0) * head_dim;
    /* of the next tile to copy, in K and in V */
    size_t tile_start = (size_t)kv_head * seq_kv * head_dim;

    const float scale_log2 = shape.scale * LOG2_E;
    const int seen_by_all = visible_keys<CAUSAL>(row0, seq_q, seq_kv);
    const int seen_by_any = visible_keys<CAUSAL>(row0 + BM - 1, seq_q, seq_kv);
    float m[BLOCKS][2], l[BLOCKS][2], acc[BLOCKS][HEAD_DIM / 2] = {};
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
        for (int r = 0; r < 2; r++) {
            m[b][r] = -CUDART_INF_F;
            l[b][r] = 0.0f;
        }

    /* The rows this lane names to ldmatrix, in the order of mma: from Q and V come 8 rows, the next
     * 8 rows, and the same of the next 8 columns; from K 8 columns, the next 8 columns, and the
     * same of the next 8 rows. */
    const uint32_t lane_Q =
        swizzled_address<HEAD_DIM>(tile_Q, warp * WARP_ROWS + lane % 16, lane / 16 * 8);
    const uint32_t lane_K =
        swizzled_address<HEAD_DIM>(tiles_K, lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
    const uint32_t lane_V = swizzled_address<HEAD_DIM>(tiles_V, lane % 16, lane / 16 * 8);

    copy_tile<BM, HEAD_DIM>(tile_Q, Q, seq_q - row0, head_dim);
    copy_tile<BN, HEAD_DIM>(tiles_K, K + tile_start, seq_kv, head_dim);
    copy_tile<BN, HEAD_DIM>(tiles_V, V + tile_start, seq_kv, head_dim);
    cp_async_commit();

    for (int k0 = 0; k0 < seen_by_any; k0 += BN) {
        const int stage = k0 / BN % STAGES, next_stage = (k0 / BN + 1) % STAGES;
        cp_async_wait<0>();
        /* this stage is filled, by all; and all are done with the other, which is filled next */
        __syncthreads();
        if (k0 + BN < seen_by_any) {
            tile_start += BN * head_dim;
            copy_tile<BN, HEAD_DIM>(tiles_K + next_stage * BN * HEAD_DIM, K + tile_start,
                                    seq_kv - k0 - BN, head_dim);
            copy_tile<BN, HEAD_DIM>(tiles_V + next_stage * BN * HEAD_DIM, V + tile_start,
                                    seq_kv - k0 - BN, head_dim);
        }
        cp_async_commit();

        float S[BLOCKS][BN / 2] = {};
#pragma unroll
        for (int d = 0; d < HEAD_DIM; d += 16) {
            uint32_t q[BLOCKS][4];
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                ldmatrix_x4(q[b], features_on(lane_Q, d) + 16 * b * ROW_BYTES);
#pragma unroll
            for (int n = 0; n < BN; n += 16) {
                uint32_t k[4];
                ldmatrix_x4(k, features_on(lane_K + stage * STAGE_BYTES, d) + n * ROW_BYTES);
#pragma unroll
                for (int b = 0; b < BLOCKS; b++) {
                    mma_m16n8k16(&S[b][n / 2], q[b], &k[0]);
                    mma_m16n8k16(&S[b][n / 2 + 4], q[b], &k[2]);
                }
            }
        }

        uint32_t P[BLOCKS][BN / 4];
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            if (k0 + BN > seen_by_all) {
                int visible[2];
                find_visible<CAUSAL>(visible, warp_row + 16 * b, seq_q, seq_kv);
                mask_scores(S[b], k0, visible);
            }
            float alpha[2];
            online_softmax(S[b], m[b], l[b], alpha, scale_log2);
            scale_rows(acc[b], alpha);
            pack_rows(P[b], S[b]);
        }

#pragma unroll
        for (int n = 0; n < BN; n += 16)
#pragma unroll
            for (int d = 0; d < HEAD_DIM; d += 16) {
                uint32_t v[4];
                ldmatrix_x4_transposed(v, features_on(lane_V + stage * STAGE_BYTES, d) +
                                              n * ROW_BYTES);
#pragma unroll
                for (int b = 0; b < BLOCKS; b++) {
                    mma_m16n8k16(&acc[b][d / 2], &P[b][n / 4], &v[0]);
                    mma_m16n8k16(&acc[b][d / 2 + 4], &P[b][n / 4], &v[2]);
                }
            }
    }

    cp_async_wait<0>();
    /* where no key was seen, Q has only now arrived: it must not land on the O that replaces it */
    __syncthreads();
    O += (size_t)head * seq_q * head_dim;
    LSE = LSE == NULL ? NULL : LSE + (size_t)head * seq_q;
    __half *tile_O = tile_Q + warp * WARP_ROWS * HEAD_DIM;
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        finish_rows(acc[b], m[b], l[b], LSE, warp_row + 16 * b, seq_q, scale_log2);
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; i += 2) {
            const int row = 16 * b + lane / 4 + 8 * (i / 2 % 2);
            *(uint32_t *)&tile_O[swizzled<HEAD_DIM>(row, 8 * (i / 4)) + lane % 4 * 2] =
                pack_halves(acc[b][i], acc[b][i + 1]);
        }
    }
    __syncwarp(); /* the warp's rows of O are complete before they are read along the rows */
    constexpr int LANES = HEAD_DIM / 8;
#pragma unroll
    for (int i = 0; i < WARP_ROWS; i += 32 / LANES) {
        const int row = i + lane / LANES, col = lane % LANES * 8;
        if (warp_row + row < seq_q && col < head_dim)
            *(uint4 *)&O[(size_t)(warp_row + row) * head_dim + col] =
                *(const uint4 *)&tile_O[swizzled<HEAD_DIM>(row, col)];
    }
}

template <int HEAD_DIM, bool CAUSAL>
static cudaError_t launch(const struct attention *call)
{
    const struct tile_order order = tile_order_of(call, BM);
    const int bytes = (BM + 2 * STAGES * tile_keys(HEAD_DIM)) * HEAD_DIM * sizeof(__half);
    cudaError_t status = cudaFuncSetAttribute((const void *)flash_mma_pipelined<HEAD_DIM, CAUSAL>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess)
        return status;
    flash_mma_pipelined<HEAD_DIM, CAUSAL><<<order.tiles, THREADS, bytes, call->stream>>>(
        (const __half *)call->Q, (const __half *)call->K, (const __half *)call->V,
        (__half *)call->O, call->LSE, *call, order);
    return cudaGetLastError();
}

extern "C" cudaError_t attention_mma_pipelined(const struct attention *call)
{
    if (call->head_dim <= 64)
        return call->causal ? launch<64, true>(call) : launch<64, false>(call);
    return call->causal ? launch<128, true>(call) : launch<128, false>(call);
}
