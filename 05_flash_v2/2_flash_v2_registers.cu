/*
 * Idea: both products from registers. A warp owns whole rows of S and O, a thread a square of each: where
 * flash_v2 reads two floats from shared memory for every multiply-add, 16 floats serve 64 of them here.
 *
 *     for each tile j of Bc keys:  S = Q·K_jᵀ                m_new = max(m, rowmax S)
 *                                  P = 2^(S - m_new)         l     = l · 2^(m - m_new) + rowsum P
 *                                                            O     = O · 2^(m - m_new) + P·V_j
 *     at the end:                  O = O / l                 LSE   = (m + log2 l) · ln 2
 *
 * Q, O [batch, heads, seq_q, head_dim], K, V [batch, kv_heads, seq_kv, head_dim], LSE [batch, heads, seq_q],
 * row-major.
 *
 * The hardware's exponential has base 2; e^x costs a multiplication by log2 e first. Here that factor and the
 * scale go into Q while it is loaded, once per block: S comes out of the product ready for the subtraction of
 * the maximum.
 *
 * A block of 4 warps owns Br = 16·R rows, a warp 4·R of them, and its 32 lanes stand in 4 rows of 8. Thread
 * (y, x) has rows y, y + 4, ... (R of them) and keys x, x + 8, ... (C) of S, the same rows and features 4x ..
 * 4x + 3, 4x + 32 .. 4x + 35, ... (D / 8) of O. A row's maximum is shared by 8 lanes; its sum stays a sum per
 * thread until the end. P goes through shared memory, as the second product wants it along other lines than
 * the first made it, but only inside the warp: no warp waits for another except when K or V is replaced. K of
 * the next tile arrives while P·V runs, V while S does.
 *
 * D is head_dim rounded up to 32, 64, 96 or 128, the rest zeros. The tile is picked by D and by the shared
 * memory that the device allows a block: at head_dim 64 on sm_80 and sm_90, Br = 128, Bc = 64, R = C = 8, 104
 * KB.
 *
 * Cost: global traffic as flash_v2's with this Br. Shared: at R = C = D / 8 = 8, per thread, 4 reads of 16
 * bytes for 64 multiply-adds. Registers: 64 for S, 64 for O, 64 for the operands, 16 for m and l.
 *
 * Source: Dao, FlashAttention-2 (arXiv:2307.08691), section 3.3, work partitioning between warps.
 */
#include "05_step.h"
#include "ptx.cuh"
#include "tiles.cuh"
#include "vectors.cuh"

#include <math_constants.h>

static const int WARPS = 4;
static const int THREADS = 32 * WARPS;
static const int MAX_HEAD_DIM = 128;
static const size_t SMALLEST_LIMIT =
    64 * 1024; /* of shared memory a block: sm_75's, later ones allow 99 KB or more */

/*
 * Rows of shared memory are padded so that lanes that read (Q, K, P) or write (P) different rows meet
 * different banks: 4 floats move the next row by one 16-byte read, 8 floats make room for the 8 lanes that
 * write side by side.
 */
static const int PAD = 4;
static const int P_PAD = 8;

__host__ __device__ constexpr int shared_floats(int R, int C, int D)
{
    return (16 * R + 2 * 8 * C) * (D + PAD) + 16 * R * (8 * C + P_PAD);
}

/* solution: helpers of your own go here. */

/* Four floats in one instruction; both sides are aligned to 16 bytes. */
static __device__ __forceinline__ void copy_4(float to[4], const float *from)
{
    *(float4 *)to = *(const float4 *)from;
}

/*
 * Starts the copy of rows row0 .. row0 + ROWS - 1 of a [rows, head_dim] matrix into a tile [ROWS][D + PAD];
 * what lies past either end is not read and becomes zero. One group of copies.
 */
template <int ROWS, int D>
static __device__ __forceinline__ void start_copy(float *tile, const float *matrix, int row0, int rows,
                                                  int head_dim, bool aligned)
{
    static_assert(ROWS * D / 4 % THREADS == 0, "every thread copies the same number of float4");
    const float *first = matrix + (size_t)row0 * head_dim;
    const int rows_left = rows - row0;
    if (aligned) {
#pragma unroll
        for (int n = 0; n < ROWS * D / 4 / THREADS; n++) {
            const int i = n * THREADS + threadIdx.x;
            const int row = i / (D / 4);
            const int feature = i % (D / 4) * 4;
            const bool inside = row < rows_left && feature < head_dim;
            cp_async_16_zero_fill(shared_address(&tile[row * (D + PAD) + feature]),
                                  &first[row * head_dim + feature], inside ? 16 : 0);
        }
    } else {
        for (int i = threadIdx.x; i < ROWS * D; i += THREADS) {
            const int row = i / D;
            const int feature = i % D;
            const bool inside = row < rows_left && feature < head_dim;
            cp_async_4_zero_fill(shared_address(&tile[row * (D + PAD) + feature]),
                                 &first[row * head_dim + feature], inside ? 4 : 0);
        }
    }
    cp_async_commit();
}

/* end of solution */

template <int R, int C, int D>
__global__ void __launch_bounds__(THREADS, 2)
    flash_v2_registers(const float *Q, const float *K, const float *V, float *O, float *LSE,
                       const struct attention_shape shape, bool aligned)
{
    /* solution: the same; a warp owns its rows, a thread its rectangles of S and O. */
    const int Br = 16 * R;
    const int Bc = 8 * C;
    const int E = D / 8; /* features of O that a thread owns, in runs of 4 */

    extern __shared__ __align__(16) float shared[];
    float *Q_tile = shared;                  /* [Br][D + PAD] */
    float *K_tile = Q_tile + Br * (D + PAD); /* [Bc][D + PAD] */
    float *V_tile = K_tile + Bc * (D + PAD); /* [Bc][D + PAD] */
    float *P_tile = V_tile + Bc * (D + PAD); /* [Br][Bc + P_PAD] */

    /*
     * Reading 16 bytes a lane, the hardware serves a warp twice as fast when lane i shares its address with
     * lane i ^ 1 or lane i ^ 2. Lanes i and i ^ 1 stand in one row here (one address in Q and P), i and i ^ 2
     * in one column (one address in K and V): x is made of bits 0, 2, 3 of the lane, y of bits 1, 4.
     */
    const int lane = threadIdx.x % 32;
    const int x = (lane & 1) | (lane >> 1 & 6);
    const int y = (lane >> 1 & 1) | (lane >> 3 & 2);
    const int row0 = threadIdx.x / 32 * 4 * R + y;

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

    start_copy<Bc, D>(K_tile, K_head, 0, shape.seq_kv, d, aligned);

    const float scale = shape.scale * CUDART_L2E_F;
    for (int i = threadIdx.x; i < Br * D; i += THREADS) {
        const int row = i / D;
        const int feature = i % D;
        const bool inside = row < q_rows && feature < d;
        Q_tile[row * (D + PAD) + feature] = inside ? Q[(q_row0 + row) * d + feature] * scale : 0.0f;
    }

    float m[R], l[R];
    alignas(16) float O_square[R][E] = {};
#pragma unroll
    for (int r = 0; r < R; r++) {
        m[r] = -CUDART_INF_F;
        l[r] = 0.0f;
    }

    for (int k0 = 0; k0 < shape.seq_kv; k0 += Bc) {
        start_copy<Bc, D>(V_tile, V_head, k0, shape.seq_kv, d, aligned);
        cp_async_wait<1>(); /* this thread's part of K is there; V may still be on its way */
        __syncthreads();    /* everyone's part of K (and, the first time, of Q) is there */

        float S[R][C] = {};
#pragma unroll 1
        for (int k = 0; k < D; k += 4) {
            alignas(16) float q[R][4], key[C][4];
#pragma unroll
            for (int r = 0; r < R; r++)
                copy_4(q[r], &Q_tile[(row0 + 4 * r) * (D + PAD) + k]);
#pragma unroll
            for (int c = 0; c < C; c++)
                copy_4(key[c], &K_tile[(x + 8 * c) * (D + PAD) + k]);

                /* Odd rows run backwards: from one product to the next at least one operand stays where it
                 * is. */
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int r = 0; r < R; r++)
#pragma unroll
                    for (int c = 0; c < C; c++) {
                        const int turn = r % 2 == 0 ? c : C - 1 - c;
                        S[r][turn] += q[r][i] * key[turn][i];
                    }
        }
        __syncthreads(); /* everyone is done with K before the next tile overwrites it */
        start_copy<Bc, D>(K_tile, K_head, k0 + Bc, shape.seq_kv, d, aligned);

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
            /* Over x, which is bits 0, 2 and 3 of the lane. */
            m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 1));
            m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 4));
            m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 8));

            /* 0 at the first tile, where m is still -inf. */
            const float rescale = exp2_approximate(m[r] - m_new);
            m[r] = m_new;
            l[r] *= rescale;
#pragma unroll
            for (int e = 0; e < E; e++)
                O_square[r][e] *= rescale;
#pragma unroll
            for (int c = 0; c < C; c++) {
                const float p = exp2_approximate(S[r][c] - m_new);
                l[r] += p;
                P_tile[(row0 + 4 * r) * (Bc + P_PAD) + x + 8 * c] = p;
            }
        }

        cp_async_wait<1>(); /* this thread's part of V is there; the next K may still be on its way */
        __syncthreads();    /* everyone's part of V is there, and so are the rows of P that the warp wrote */

#pragma unroll 1
        for (int k = 0; k < Bc; k += 4) {
            alignas(16) float p[R][4];
#pragma unroll
            for (int r = 0; r < R; r++)
                copy_4(p[r], &P_tile[(row0 + 4 * r) * (Bc + P_PAD) + k]);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                alignas(16) float v[E];
#pragma unroll
                for (int e = 0; e < E; e += 4)
                    copy_4(&v[e], &V_tile[(k + i) * (D + PAD) + 4 * x + 8 * e]);
#pragma unroll
                for (int r = 0; r < R; r++)
#pragma unroll
                    for (int e = 0; e < E; e++) {
                        const int turn = r % 2 == 0 ? e : E - 1 - e;
                        O_square[r][turn] += p[r][i] * v[turn];
                    }
            }
        }
        __syncthreads(); /* everyone is done with V before the next tile overwrites it */
    }

    /* The copy of the tile after the last wrote only zeros, but no thread leaves before its copies. */
    cp_async_wait<0>();

#pragma unroll
    for (int r = 0; r < R; r++) {
        l[r] += __shfl_xor_sync(0xffffffff, l[r], 1);
        l[r] += __shfl_xor_sync(0xffffffff, l[r], 4);
        l[r] += __shfl_xor_sync(0xffffffff, l[r], 8);

        const int row = row0 + 4 * r;
        if (row < q_rows) {
            const float weight = l[r] > 0.0f ? 1.0f / l[r] : 0.0f; /* no keys at all: O = 0 */
#pragma unroll
            for (int e = 0; e < E; e += 4) {
                const float4 four = make_float4(O_square[r][e] * weight, O_square[r][e + 1] * weight,
                                                O_square[r][e + 2] * weight, O_square[r][e + 3] * weight);
                store_4(O_block, row, 4 * x + 8 * e, q_rows, d, aligned, four);
            }
            if (LSE != NULL && x == 0)
                LSE[q_row0 + row] = (m[r] + log2f(l[r])) * CUDART_LN2_F;
        }
    }
    /* end of solution */
}

template <int R, int C, int D>
static cudaError_t launch(const float *Q, const float *K, const float *V, float *O, float *LSE,
                          const struct attention_shape *shape, cudaStream_t stream)
{
    const int shared_bytes = shared_floats(R, C, D) * sizeof(float);
    const bool aligned = rows_aligned(K, shape->head_dim) && rows_aligned(V, shape->head_dim) &&
                         rows_aligned(O, shape->head_dim);
    const cudaError_t status = cudaFuncSetAttribute(
        flash_v2_registers<R, C, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (status != cudaSuccess)
        return status;

    const int blocks = shape->batch * shape->heads * ceil_div(shape->seq_q, 16 * R);
    flash_v2_registers<R, C, D><<<blocks, THREADS, shared_bytes, stream>>>(Q, K, V, O, LSE, *shape, aligned);
    return cudaGetLastError();
}

/* The tile R, C where a block may have that much shared memory, else the small one, for sm_75's 64 KB. */
template <int R, int C, int SMALL_R, int SMALL_C, int D>
static cudaError_t launch_what_fits(const float *Q, const float *K, const float *V, float *O, float *LSE,
                                    const struct attention_shape *shape, size_t shared_limit,
                                    cudaStream_t stream)
{
    static_assert(shared_floats(SMALL_R, SMALL_C, D) * sizeof(float) <= SMALLEST_LIMIT,
                  "fits every architecture");
    if (shared_floats(R, C, D) * sizeof(float) <= shared_limit)
        return launch<R, C, D>(Q, K, V, O, LSE, shape, stream);
    return launch<SMALL_R, SMALL_C, D>(Q, K, V, O, LSE, shape, stream);
}

static cudaError_t attend(const float *Q, const float *K, const float *V, float *O, float *LSE,
                          void *workspace, const struct attention_shape *shape, size_t shared_limit,
                          cudaStream_t stream)
{
    const struct attention_limits limits = {MAX_HEAD_DIM, 1, false};
    cudaError_t status =
        attention_check_arguments(Q, K, V, O, LSE, workspace, 0, shape, sizeof(float), &limits);
    if (status != cudaSuccess || attention_query_rows(shape) == 0)
        return status;

    if (shape->head_dim <= 32)
        return launch_what_fits<8, 8, 4, 4, 32>(Q, K, V, O, LSE, shape, shared_limit, stream);
    if (shape->head_dim <= 64)
        return launch_what_fits<FLASH_V2_REGISTERS_BR / 16, FLASH_V2_REGISTERS_BC / 8, 4, 4, 64>(
            Q, K, V, O, LSE, shape, shared_limit, stream);
    if (shape->head_dim <= 96)
        return launch_what_fits<4, 8, 4, 4, 96>(Q, K, V, O, LSE, shape, shared_limit, stream);
    return launch_what_fits<4, 4, 2, 4, 128>(Q, K, V, O, LSE, shape, shared_limit, stream);
}

extern "C" cudaError_t attention_flash_v2_registers(const float *Q, const float *K, const float *V, float *O,
                                                    float *LSE, void *workspace,
                                                    const struct attention_shape *shape, cudaStream_t stream)
{
    int device = 0, shared_limit = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (status != cudaSuccess)
        return status;
    return attend(Q, K, V, O, LSE, workspace, shape, (size_t)shared_limit, stream);
}

extern "C" cudaError_t attention_flash_v2_registers_64_kb(const float *Q, const float *K, const float *V,
                                                          float *O, float *LSE, void *workspace,
                                                          const struct attention_shape *shape,
                                                          cudaStream_t stream)
{
    return attend(Q, K, V, O, LSE, workspace, shape, SMALLEST_LIMIT, stream);
}
