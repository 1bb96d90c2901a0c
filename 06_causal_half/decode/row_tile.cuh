/*
 * What a block does with a tile of rows of one kv head's list, and tiles of DECODE_KEYS keys.
 *
 * Four warps share the work (decode_ring's eight do so otherwise). ROW_WARPS of them (1, 2 or 4)
 * stand side by side along the rows, 16 each, and KEY_WARPS = 4 / ROW_WARPS along the keys of a
 * tile: a warp multiplies its 16 rows with its DECODE_KEYS / KEY_WARPS keys, and has an (m, l, O)
 * of its own. In the end those that have the same rows merge.
 *
 * A tile of K or V is one panel of 64 columns or two, swizzled as in mma_swizzled.
 */
#ifndef ROW_TILE_CUH
#define ROW_TILE_CUH

#include "key_rows.cuh"
#include "runs.cuh"

static const int WARPS = DECODE_WARPS;
static const int THREADS = WARPS * WARP;
static const int Bc = DECODE_KEYS;
static const int PANEL = 64; /* columns of a panel */
static const int PANEL_ROW_BYTES = PANEL * 2;

template <typename T, int HEAD_DIM>
struct key_tile {
    T K[Bc * HEAD_DIM], V[Bc * HEAD_DIM];
};

/* Where the COUNT warps of a block leave their states to be merged. PAD floats make the rows that
 * are stored together begin in different banks. */
template <int HEAD_DIM, int COUNT = WARPS>
struct warp_states {
    static const int PAD = 8;
    float O[COUNT][16][HEAD_DIM + PAD];
    float2 m_l[COUNT][16];
};

/* Where in a tile the 8 elements of row `row` from column `col`, a multiple of 8, begin. */
static __device__ __forceinline__ int swizzled(int row, int col)
{
    return (col / PANEL * Bc + row) * PANEL + (col % PANEL ^ row % 8 * 8);
}

/* The address of features d .. d + 15 of a row whose features 0 .. 15 are at `address`; d is a
 * multiple of 16. To another row a multiple of 8 away it is a plain distance. */
static __device__ __forceinline__ uint32_t features_on(uint32_t address, int d)
{
    return (address ^ d % PANEL * 2) + d / PANEL * Bc * PANEL_ROW_BYTES;
}

/* COPIERS neighbouring threads start to copy ROWS keys from `first`, and their values, to rows
 * row0 .. of a tile. They lie side by side in memory, from row `at` on, and those from `end` on
 * become zeros. Where there is no such page, at < 0, keys are NaN: a score with one is NaN, and so
 * is what sees it. */
template <int ROWS, int COPIERS, typename T, int HEAD_DIM>
static __device__ __forceinline__ void copy_keys(struct key_tile<T, HEAD_DIM> *tile, int row0,
                                                 const T *K, const T *V, long long at, int first,
                                                 int end, int head_dim)
{
    constexpr int LANES = HEAD_DIM / 8; /* threads side by side along a row */
    const int lane_row = threadIdx.x % COPIERS / LANES, col = threadIdx.x % LANES * 8;
#pragma unroll
    for (int row = lane_row; row < ROWS; row += COPIERS / LANES) {
        const bool inside = first + row < end && col < head_dim;
        const int place = swizzled(row0 + row, col);
        const size_t from = inside && at >= 0 ? (size_t)(at + row) * head_dim + col : 0;
        cp_async_16_zero_fill(shared_address(&tile->V[place]), &V[from],
                              inside && at >= 0 ? 16 : 0);
        if (inside && at < 0)
            *(uint4 *)&tile->K[place] = make_uint4(~0u, ~0u, ~0u, ~0u);
        else
            cp_async_16_zero_fill(shared_address(&tile->K[place]), &K[from], inside ? 16 : 0);
    }
}

/* Starts to copy the tile of keys from k0, a multiple of Bc, by COPIERS threads; keys from `end` on
 * are zeros. No page has fewer than SMALLEST_PAGE keys. */
template <int COPIERS, typename T, int HEAD_DIM>
static __device__ __forceinline__ void copy_by_pages(struct key_tile<T, HEAD_DIM> *tile, const T *K,
                                                     const T *V, const struct key_rows &rows,
                                                     int k0, int end, int head_dim)
{
    const int SMALLEST_PAGE = 16;
#pragma unroll 1
    for (int row = 0; row < Bc; row += SMALLEST_PAGE)
        copy_keys<SMALLEST_PAGE, COPIERS>(
            tile, row, K, V, k0 + row < end ? key_row(rows, k0 + row) : 0, k0 + row, end, head_dim);
}

/* The same by all threads, and at once where one page has the whole tile. */
template <typename T, int HEAD_DIM>
static __device__ __forceinline__ void copy_tile(struct key_tile<T, HEAD_DIM> *tile, const T *K,
                                                 const T *V, const struct key_rows &rows, int k0,
                                                 int end, int head_dim)
{
    if (rows.pages == NULL || 1 << rows.page_bits >= Bc)
        copy_keys<Bc, THREADS>(tile, 0, K, V, key_row(rows, k0), k0, end, head_dim);
    else
        copy_by_pages<THREADS>(tile, K, V, rows, k0, end, head_dim);
}

/* A warp's 16 rows, for one of its tiles after the other. */
template <int HEAD_DIM>
struct warp_rows {
    uint32_t q[HEAD_DIM / 16][4]; /* left factors, as mma_m16n8k16 wants them */
    int visible[2];               /* keys that the lane's two rows see */
    int seen_by_all;              /* and that every row of the tile sees */
    float scale_log2;
    float m[2], l[2], acc[HEAD_DIM / 2];
};

/* Loads the queries of the rows first_row .. first_row + 15 of the list, which has head_rows. */
template <typename T, int HEAD_DIM>
static __device__ __forceinline__ void load_queries(uint32_t (&q)[HEAD_DIM / 16][4], const T *Q,
                                                    const struct attention &shape, int first_row,
                                                    int head_rows)
{
    const int lane = threadIdx.x % WARP, head_dim = shape.head_dim;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = first_row + lane / ROW_LANES + 8 * r;
#pragma unroll
        for (int d = 0; d < HEAD_DIM; d += 8) {
            const int col = d + lane % ROW_LANES * 2;
            q[d / 16][d % 16 / 8 * 2 + r] =
                row < head_rows && col < head_dim
                    ? *(const uint32_t *)&Q[(size_t)row * head_dim + col]
                    : 0;
        }
    }
}

/* Begins these rows. `keys` is how many the sequence has. */
template <typename T, int HEAD_DIM>
static __device__ __forceinline__ void begin_rows(struct warp_rows<HEAD_DIM> &warp, const T *Q,
                                                  const struct attention &shape, int first_row,
                                                  int head_rows, int keys)
{
    load_queries<T, HEAD_DIM>(warp.q, Q, shape, first_row, head_rows);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = first_row + threadIdx.x % WARP / ROW_LANES + 8 * r;
        warp.visible[r] = keys_seen(shape.causal, row % shape.seq_q, shape.seq_q, keys);
        warp.m[r] = -CUDART_INF_F;
        warp.l[r] = 0.0f;
    }
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; i++)
        warp.acc[i] = 0.0f;
    warp.scale_log2 = shape.scale * LOG2_E;
}

/* Adds WARP_KEYS keys, of which the first is first_key. lane_K and lane_V are what the lane names
 * to ldmatrix of the first 16. */
template <typename T, int HEAD_DIM, int WARP_KEYS>
static __device__ __forceinline__ void attend(struct warp_rows<HEAD_DIM> &warp, uint32_t lane_K,
                                              uint32_t lane_V, int first_key)
{
    float S[WARP_KEYS / 2] = {};
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16)
#pragma unroll
        for (int n = 0; n < WARP_KEYS; n += 16) {
            uint32_t k[4];
            ldmatrix_x4(k, features_on(lane_K, d) + n * PANEL_ROW_BYTES);
            mma_m16n16k16<T>(&S[n / 2], warp.q[d / 16], k);
        }

    if (first_key + WARP_KEYS > warp.seen_by_all)
        mask_scores(S, first_key, warp.visible);
    float rescale[2];
    online_softmax(S, warp.m, warp.l, rescale, warp.scale_log2);
    scale_rows(warp.acc, rescale);
    uint32_t P[WARP_KEYS / 4];
    pack_rows<T>(P, S);

#pragma unroll
    for (int n = 0; n < WARP_KEYS; n += 16)
#pragma unroll
        for (int d = 0; d < HEAD_DIM; d += 16) {
            uint32_t v[4];
            ldmatrix_x4_transposed(v, features_on(lane_V, d) + n * PANEL_ROW_BYTES);
            mma_m16n16k16<T>(&warp.acc[d / 2], &P[n / 4], v);
        }
}

/* Leaves a warp's state where merge_warps() finds it. Warps that have the same rows have
 * neighbouring places. */
template <int HEAD_DIM, int COUNT>
static __device__ __forceinline__ void leave_state(struct warp_states<HEAD_DIM, COUNT> *states,
                                                   const struct warp_rows<HEAD_DIM> &rows,
                                                   int place = threadIdx.x / WARP)
{
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = lane / ROW_LANES + 8 * r;
        const float l = warp_sum(rows.l[r], ROW_LANES);
        if (lane % ROW_LANES == 0)
            states->m_l[place][row] = make_float2(rows.m[r] * rows.scale_log2, l);
#pragma unroll
        for (int d = 0; d < HEAD_DIM; d += 8)
            *(float2 *)&states->O[place][row][d + lane % ROW_LANES * 2] =
                make_float2(rows.acc[d / 2 + 2 * r], rows.acc[d / 2 + 2 * r + 1]);
    }
}

/* Returns what the SAME warps that have a row of the tile have left of it. */
template <int SAME, int HEAD_DIM, int COUNT>
static __device__ __forceinline__ struct running
merged_row(const struct warp_states<HEAD_DIM, COUNT> *states, int row, int feature)
{
    struct running all = nothing();
#pragma unroll
    for (int w = 0; w < SAME; w++) {
        const int warp = row / 16 * SAME + w;
        const float2 m_l = states->m_l[warp][row % 16];
        const struct running of_warp = {m_l.x, m_l.y,
                                        *(const float4 *)&states->O[warp][row % 16][feature]};
        merge(&all, of_warp);
    }
    return all;
}

/* Merges the warps that have the same rows, and stores what the run leaves. `row0` counts over all
 * heads, `rows` are those of the tile that exist. With a wrong length they are NaN. */
template <typename T, int HEAD_DIM, int ROW_WARPS, int COUNT>
static __device__ __forceinline__ void
merge_warps(const struct warp_states<HEAD_DIM, COUNT> *states, const struct decode_output &out,
            int run, int row0, int rows, bool wrong_length)
{
    constexpr int LANES = HEAD_DIM / 4;
    const int feature = threadIdx.x % LANES * 4;
    for (int row = threadIdx.x / LANES; row < rows && feature < out.head_dim;
         row += COUNT * WARP / LANES) {
        struct running all = merged_row<COUNT / ROW_WARPS>(states, row, feature);
        if (wrong_length)
            all.l = CUDART_NAN_F;
        store_run<T>(out, run, row0 + row, feature, all);
    }
}

/* launch<T, HEAD_DIM, ROW_WARPS>(call) of a rung, for the call's type, head_dim and rows. */
#define LAUNCH_ROWS(call)                                                                          \
    ((call)->type == TENSOR_BF16 ? LAUNCH_ROWS_TYPE(__nv_bfloat16, call)                           \
                                 : LAUNCH_ROWS_TYPE(__half, call))
#define LAUNCH_ROWS_TYPE(T, call)                                                                  \
    ((call)->head_dim <= 64 ? LAUNCH_ROWS_HEAD_DIM(T, 64, call)                                    \
                            : LAUNCH_ROWS_HEAD_DIM(T, 128, call))
#define LAUNCH_ROWS_HEAD_DIM(T, HEAD_DIM, call)                                                    \
    (decode_tile_rows(call) == 16   ? launch<T, HEAD_DIM, 1>(call)                                 \
     : decode_tile_rows(call) == 32 ? launch<T, HEAD_DIM, 2>(call)                                 \
                                    : launch<T, HEAD_DIM, 4>(call))

#endif
