/*
 * Idea: both products from registers. A warp owns whole rows of S and O, a thread a square of each:
 * where flash_v2 reads two floats from shared memory for every multiply-add, 16 floats serve 64 of
 * them here.
 *
 *     for each tile j of Bc keys:  S = Q·K_jᵀ                m_new = max(m, rowmax S)
 *                                  P = 2^(S - m_new)         l     = l · 2^(m - m_new) + rowsum P
 *                                                            O     = O · 2^(m - m_new) + P·V_j
 *     at the end:                  O = O / l                 LSE   = (m + log2 l) · ln 2
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch,
 * heads, seq_q], row-major.
 *
 * The hardware's exponential has base 2; e^x costs a multiplication by log2 e first. Here that
 * factor and the scale go into Q while it is loaded, once per block: S comes out of the product
 * ready for the subtraction of the maximum.
 *
 * Both products have one form, C[row][col] += A[k][row] · B[k][col]: S from Qᵀ and Kᵀ, O from Pᵀ
 * and V. So Q and K are transposed on their way into shared memory and P on its way back there, and
 * for each k a thread reads its rows and columns in runs of four neighbours
 * (common/rectangles.cuh).
 *
 * A block of 4 warps owns Br = 16·R rows, a warp 4·R of them, and its 32 lanes stand in 4 rows (y)
 * of 8 (x). Thread (y, x) has R rows of the warp's, the keys x, x + 8, ... (C of them) of S and D /
 * 8 features of O. A row's maximum is shared by the 8 lanes of a y; its sum stays a sum per thread
 * until the end. P goes through shared memory, as the second product wants it along other lines
 * than the first made it, but only inside the warp: no warp waits for another except when K or V is
 * replaced. K of the next tile arrives while P·V runs, V while S does.
 *
 * D is head_dim rounded up to 32, 64, 96 or 128, the rest zeros. The tile is picked by D and by the
 * shared memory that the device allows a block: at head_dim 64 on sm_80 and sm_90, Br = 128, Bc =
 * 64, R = C = 8, 106 KiB.
 *
 * Cost: global traffic as flash_v2's with this Br. Shared: at R = C = D / 8 = 8, per thread, 4
 * reads of 16 bytes for 64 multiply-adds. Registers: 64 for S, 64 for O, 32 for the operands of two
 * steps, 16 for m and l.
 *
 * Source: Dao, FlashAttention-2 (arXiv:2307.08691), section 3.3, work partitioning between warps.
 */
#include "05_step.h"
#include "device.h"
#include "ptx.cuh"
#include "rectangles.cuh"
#include "tiles.cuh"
#include "vectors.cuh"

#include <math_constants.h>

static const int WARPS = 4;
static const int THREADS = 32 * WARPS;
static const size_t SMALLEST_LIMIT =
    64 * 1024; /* of shared memory a block: sm_75's, later ones allow 99 KB or more */

/*
 * Rows of the transposed tiles are padded so that lanes that store side by side meet different
 * banks: 4 floats for 8 lanes along head_dim and 4 across (Q, K), 8 floats for lanes that store
 * runs of four (P).
 */
static const int PAD = 4;
static const int P_PAD = 8;

static __host__ __device__ constexpr int slab_floats(int R, int C)
{
    return 8 * C * (LANES_DOWN * R + P_PAD);
}

static __host__ __device__ constexpr int shared_floats(int R, int C, int D)
{
    return D * (16 * R + PAD) + D * (8 * C + PAD) + 8 * C * D + WARPS * slab_floats(R, C);
}

/*
 * Starts the copy of keys key0 .. key0 + Bc - 1 of K [keys, head_dim] into the columns of K_tile
 * [D][Bc + PAD]: key x + 8j of each 32 becomes column 4x + j, so that the four keys of thread x lie
 * side by side. What lies past either end is not read and becomes zero. One group of copies.
 */
template <int Bc, int D>
static __device__ __forceinline__ void start_copy_of_K(float *K_tile, const float *K, int key0,
                                                       int keys, int head_dim)
{
    const int lane = threadIdx.x % 32, feature = lane % 8, j = lane / 8;
#pragma unroll
    for (int key = 0; key < Bc; key += 32)
#pragma unroll
        for (int x = 0; x < 8; x += WARPS) {
            const int this_x = x + threadIdx.x / 32;
            const int this_key = key0 + key + 8 * j + this_x;
            const float *from = K + (size_t)this_key * head_dim + feature;
            const uint32_t to =
                shared_address(&K_tile[feature * (Bc + PAD) + key + 4 * this_x + j]);
            const int features_left = this_key < keys ? head_dim - feature : 0;
#pragma unroll
            for (int k = 0; k < D; k += 8)
                cp_async_4_zero_fill(to + sizeof(float) * k * (Bc + PAD), from + k,
                                     k < features_left ? 4 : 0);
        }
    cp_async_commit();
}

/* Starts the copy of keys key0 .. key0 + Bc - 1 of V [keys, head_dim] into V_tile [Bc][D],
 * likewise. */
template <int Bc, int D>
static __device__ __forceinline__ void start_copy_of_V(float *V_tile, const float *V, int key0,
                                                       int keys, int head_dim, bool aligned)
{
    if (aligned) {
        const int feature = threadIdx.x % 8 * 4;
#pragma unroll
        for (int key = 0; key < Bc; key += THREADS / 8) {
            const int this_key = key + threadIdx.x / 8;
            const float *from = V + (size_t)(key0 + this_key) * head_dim + feature;
            const uint32_t to = shared_address(&V_tile[this_key * D + feature]);
            const int features_left = key0 + this_key < keys ? head_dim - feature : 0;
#pragma unroll
            for (int k = 0; k < D; k += 32)
                cp_async_16_zero_fill(to + sizeof(float) * k, from + k, k < features_left ? 16 : 0);
        }
    } else {
        for (int key = threadIdx.x / 32; key < Bc; key += WARPS)
            for (int feature = threadIdx.x % 32; feature < D; feature += 32) {
                const bool inside = key0 + key < keys && feature < head_dim;
                cp_async_4_zero_fill(shared_address(&V_tile[key * D + feature]),
                                     V + (size_t)(key0 + key) * head_dim + feature, inside ? 4 : 0);
            }
    }
    cp_async_commit();
}

template <int R, int C, int D>
__global__ void __launch_bounds__(THREADS, 2)
    flash_v2_registers(const float *Q, const float *K, const float *V, float *O, float *LSE,
                       const struct attention shape, bool aligned)
{
    const int Br = 16 * R;
    const int Bc = 8 * C;
    const int E = D / 8;             /* features of O that a thread owns */
    const int ROWS = LANES_DOWN * R; /* of a warp */

    extern __shared__ __align__(16) float shared[];
    float *Q_tile = shared;                  /* [D][Br + PAD] */
    float *K_tile = Q_tile + D * (Br + PAD); /* [D][Bc + PAD] */
    float *V_tile = K_tile + D * (Bc + PAD); /* [Bc][D] */

    const int x = lane_x(), y = lane_y(), warp = threadIdx.x / 32;
    /* [Bc][ROWS + P_PAD], this warp's own */
    float *P_slab = V_tile + Bc * D + warp * slab_floats(R, C);

    const int d = shape.head_dim;
    const int q_tiles = ceil_div(shape.seq_q, Br);
    const int head = blockIdx.x / q_tiles;
    const int q0 = blockIdx.x % q_tiles * Br;
    const int q_rows = min(Br, shape.seq_q - q0);
    const size_t q_row0 = (size_t)head * shape.seq_q + q0;
    const size_t kv_row0 = (size_t)(head / (shape.heads / shape.kv_heads)) * shape.seq_kv;
    float *O_block = O + q_row0 * d;
    const float *K_head = K + kv_row0 * d;
    const float *V_head = V + kv_row0 * d;

    start_copy_of_K<Bc, D>(K_tile, K_head, 0, shape.seq_kv, d);

    const float scale = shape.scale * CUDART_L2E_F;
    for (int row = threadIdx.x / 8; row < Br; row += THREADS / 8)
#pragma unroll
        for (int k = 0; k < D; k += 8) {
            const int feature = k + threadIdx.x % 8;
            const bool inside = row < q_rows && feature < d;
            Q_tile[feature * (Br + PAD) + row] =
                inside ? Q[(q_row0 + row) * d + feature] * scale : 0.0f;
        }

    float m[R], l[R];
    float O_square[R][E] = {};
#pragma unroll
    for (int r = 0; r < R; r++) {
        m[r] = -CUDART_INF_F;
        l[r] = 0.0f;
    }

    for (int k0 = 0; k0 < shape.seq_kv; k0 += Bc) {
        start_copy_of_V<Bc, D>(V_tile, V_head, k0, shape.seq_kv, d, aligned);
        cp_async_wait<1>(); /* this thread's part of K is there; V may still be on its way */
        __syncthreads();    /* everyone's part of K (and, the first time, of Q) is there */

        float S[R][C] = {};
        multiply_add<R, C, Br + PAD, Bc + PAD>(S, Q_tile + warp * ROWS, K_tile, D);
        __syncthreads(); /* everyone is done with K before the next tile overwrites it */
        start_copy_of_K<Bc, D>(K_tile, K_head, k0 + Bc, shape.seq_kv, d);

        if (k0 + Bc > shape.seq_kv) { /* keys past the end get no weight */
#pragma unroll
            for (int c = 0; c < C; c++)
                if (k0 + x + 8 * c >= shape.seq_kv)
#pragma unroll
                    for (int r = 0; r < R; r++)
                        S[r][c] = -CUDART_INF_F;
        }

#pragma unroll
        for (int r = 0; r < R; r++) {
            float m_new = m[r];
#pragma unroll
            for (int c = 0; c < C; c++)
                m_new = fmaxf(m_new, S[r][c]);
            m_new = max_over_x(m_new);

            /* 0 at the first tile, where m is still -inf. */
            const float rescale = exp2_approximate(m[r] - m_new);
            m[r] = m_new;
            l[r] *= rescale;
#pragma unroll
            for (int e = 0; e < E; e++)
                O_square[r][e] *= rescale;
#pragma unroll
            for (int c = 0; c < C; c++) {
                S[r][c] = exp2_approximate(S[r][c] - m_new); /* P from here on */
                l[r] += S[r][c];
            }
        }

#pragma unroll
        for (int c = 0; c < C; c++) {
            float p[R];
#pragma unroll
            for (int r = 0; r < R; r++)
                p[r] = S[r][c];
            write_spread<R>(&P_slab[(x + 8 * c) * (ROWS + P_PAD)], p, y, LANES_DOWN);
        }

        /* this thread's part of V is there; the next K may still be on its way */
        cp_async_wait<1>();
        /* everyone's part of V is there, and so are the rows of P that the warp wrote */
        __syncthreads();

        multiply_add<R, E, ROWS + P_PAD, D>(O_square, P_slab, V_tile, Bc);
        __syncthreads(); /* everyone is done with V before the next tile overwrites it */
    }

    /* The copy of the tile after the last wrote only zeros, but no thread leaves before its
     * copies. */
    cp_async_wait<0>();

#pragma unroll
    for (int r = 0; r < R; r++) {
        l[r] = sum_over_x(l[r]);

        const int row = warp * ROWS + spread(r, R, y, LANES_DOWN);
        if (row < q_rows) {
            const float weight = l[r] > 0.0f ? 1.0f / l[r] : 0.0f; /* no keys at all: O = 0 */
#pragma unroll
            for (int e = 0; e < E; e += 4) {
                const float4 four =
                    make_float4(O_square[r][e] * weight, O_square[r][e + 1] * weight,
                                O_square[r][e + 2] * weight, O_square[r][e + 3] * weight);
                store_4(O_block, row, spread(e, E, x, LANES_ACROSS), q_rows, d, aligned, four);
            }
            if (LSE != NULL && x == 0)
                LSE[q_row0 + row] = (m[r] + log2f(l[r])) * CUDART_LN2_F;
        }
    }
}

template <int R, int C, int D>
static cudaError_t launch(const struct attention *call)
{
    const float *Q = (const float *)call->Q, *K = (const float *)call->K,
                *V = (const float *)call->V;
    float *O = (float *)call->O;
    const int shared_bytes = shared_floats(R, C, D) * sizeof(float);
    const bool aligned = rows_aligned(K, call->head_dim) && rows_aligned(V, call->head_dim) &&
                         rows_aligned(O, call->head_dim);
    const cudaError_t status = cudaFuncSetAttribute(
        flash_v2_registers<R, C, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (status != cudaSuccess)
        return status;

    const int blocks = call->batch * call->heads * ceil_div(call->seq_q, 16 * R);
    flash_v2_registers<R, C, D>
        <<<blocks, THREADS, shared_bytes, call->stream>>>(Q, K, V, O, call->LSE, *call, aligned);
    return cudaGetLastError();
}

/* The tile R, C where a block may have that much shared memory, else the small one, for sm_75's 64
 * KB. */
template <int R, int C, int SMALL_R, int SMALL_C, int D>
static cudaError_t launch_what_fits(const struct attention *call, size_t shared_limit)
{
    static_assert(shared_floats(SMALL_R, SMALL_C, D) * sizeof(float) <= SMALLEST_LIMIT,
                  "fits every architecture");
    if (shared_floats(R, C, D) * sizeof(float) <= shared_limit)
        return launch<R, C, D>(call);
    return launch<SMALL_R, SMALL_C, D>(call);
}

extern "C" cudaError_t attention_flash_v2_registers(const struct attention *call)
{
    int shared_limit;
    cudaError_t status = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &shared_limit);
    if (status != cudaSuccess)
        return status;
    if (call->head_dim <= 32)
        return launch_what_fits<8, 8, 4, 4, 32>(call, shared_limit);
    if (call->head_dim <= 64)
        return launch_what_fits<8, 8, 4, 4, 64>(call, shared_limit);
    if (call->head_dim <= 96)
        return launch_what_fits<4, 8, 4, 4, 96>(call, shared_limit);
    return launch_what_fits<4, 4, 2, 4, 128>(call, shared_limit);
}
