#include "matmul.h"

#include "harness/cases.h"
#include "harness/explain.h"
#include "harness/refusal.h"

#include <float.h>
#include <math.h>

cudaError_t matmul_run(const struct matmul_kernel *row, const float *A, const float *B, float *C,
                       int M, int N, int K, cudaStream_t stream)
{
    cudaError_t status;
    if ((status = require_device(&row->about)) != cudaSuccess ||
        (status = require_size("M", M)) != cudaSuccess ||
        (status = require_size("N", N)) != cudaSuccess ||
        (status = require_size("K", K)) != cudaSuccess)
        return status;

    const size_t bytes_A = (size_t)M * K * sizeof *A;
    const size_t bytes_B = (size_t)K * N * sizeof *B;
    const size_t bytes_C = (size_t)M * N * sizeof *C;
    if (bytes_C == 0)
        return cudaSuccess;
    if ((status = require_pointer("A", A, bytes_A, sizeof *A)) != cudaSuccess ||
        (status = require_pointer("B", B, bytes_B, sizeof *B)) != cudaSuccess ||
        (status = require_pointer("C", C, bytes_C, sizeof *C)) != cudaSuccess ||
        (status = require_disjoint("C", C, bytes_C, "A", A, bytes_A)) != cudaSuccess ||
        (status = require_disjoint("C", C, bytes_C, "B", B, bytes_B)) != cudaSuccess)
        return status;
    launch_begins();
    return launch_ends(row->launch(A, B, C, M, N, K, stream));
}

struct cost matmul_tiled_cost(const struct matmul_kernel *row, int M, int N, int K)
{
    const long long m = M, n = N, k = K;
    const long long from_A = (n + row->BN - 1) / row->BN * m * k;
    const long long from_B = (m + row->BM - 1) / row->BM * n * k;
    const int load_A = K % 4 == 0 ? row->load_width : 1, load_B = N % 4 == 0 ? row->load_width : 1;
    const int store = N % 4 == 0 ? row->store_width : 1;
    return (struct cost){from_A / load_A + from_B / load_B, m * n / store, 4 * (from_A + from_B),
                         4 * m * n};
}

struct cost matmul_whole_tiles_cost(const struct matmul_kernel *row, int M, int N, int K)
{
    const long long down = ((long long)M + row->BM - 1) / row->BM,
                    across = ((long long)N + row->BN - 1) / row->BN;
    return matmul_tiles_cost(row, down * across, M, N, K);
}

struct cost matmul_tiles_cost(const struct matmul_kernel *row, long long tiles, int M, int N, int K)
{
    const long long m = M, n = N, k = K;
    const int load_B = N % 4 == 0 ? row->load_width : 1, store = N % 4 == 0 ? row->store_width : 1;
    return (struct cost){tiles * (row->BM + row->BN / load_B) * k, m * n / store,
                         4 * tiles * (row->BM + row->BN) * k, 4 * m * n};
}

static const struct size_option size_options[] = {
    [MATMUL_M] = {"m", "rows of A and C", 0, MAX_EXTENT, 256, 4096, .flag = false},
    [MATMUL_N] = {"n", "columns of B and C", 0, MAX_EXTENT, 256, 4096, .flag = false},
    [MATMUL_K] = {"k", "columns of A, rows of B", 0, MAX_EXTENT, 64, 4096, .flag = false},
    {.name = NULL},
};

static cudaError_t tensors(long long sizes[MAX_SIZES], struct tensor list[MAX_TENSORS], int *count)
{
    const size_t M = (size_t)sizes[MATMUL_M], N = (size_t)sizes[MATMUL_N],
                 K = (size_t)sizes[MATMUL_K];
    list[0] = (struct tensor){"A", TENSOR_INPUT, TENSOR_F32, M, K, {M, K}};
    list[1] = (struct tensor){"B", TENSOR_INPUT, TENSOR_F32, K, N, {K, N}};
    list[2] = (struct tensor){"C", TENSOR_OUTPUT, TENSOR_F32, M, N, {M, N}};
    *count = 3;
    return cudaSuccess;
}

static struct cost cost(const struct kernel *kernel, const long long sizes[MAX_SIZES])
{
    const struct matmul_kernel *row = (const struct matmul_kernel *)kernel;
    return row->cost(row, (int)sizes[MATMUL_M], (int)sizes[MATMUL_N], (int)sizes[MATMUL_K]);
}

/* A has elements of the kind. So does B, unless its elements would then be alike. */
/*
 * An infinity in A or B makes its row or column infinite, and NaN where it meets a zero (0 * inf)
 * or an infinity of the other sign. Nothing may spread beyond.
 */
static void put_infinities(float *A, float *B, size_t M, size_t N, size_t K)
{
    A[(M - 1) * K] = INFINITY;     /* row M - 1 */
    A[5 * K + K - 1] = -INFINITY;  /* row 5 */
    B[N - 1] = 0.0f;               /* 0 * inf at [M - 1][N - 1] */
    B[(K - 1) * N + 3] = INFINITY; /* column 3; -inf at [5][3], not NaN */
    A[7 * K + K - 1] = 0.0f;       /* 0 * inf at [7][3] */
}

static void inputs(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                   void *const *host)
{
    const size_t M = (size_t)sizes[MATMUL_M], N = (size_t)sizes[MATMUL_N],
                 K = (size_t)sizes[MATMUL_K];
    enum input_kind kind_B =
        kind == INPUTS_UNIFORM || kind == INPUTS_OUTLIERS ? kind : INPUTS_NORMAL;
    input_matrix(host[0], M, K, kind, seed, 0);
    input_matrix(host[1], K, N, kind_B, seed, 1);
    if (kind == INPUTS_SUBNORMAL)
        for (size_t i = 0; i < M * K; i++)
            ((float *)host[0])[i] *= 0x1p-130f;
    if (kind == INPUTS_SPECIAL && M > 7 && N > 3 && K > 1)
        put_infinities(host[0], host[1], M, N, K);
}

/* The elements of A and B are at A[row * a_row + k * a_k] and B[k * b_k + col * b_col]. */
struct strides {
    size_t a_row, a_k, b_k, b_col;
};

static struct strides strides_of(size_t N, size_t K)
{
    const struct strides row_major = {K, 1, N, 1};
    return row_major;
}

/* Computes a row of C from terms begin .. end - 1. If scale is not null, it also sums the products'
 * magnitudes, in which the rounding errors of the sum are measured. */
static void product(const float *A, const float *B, size_t N, size_t row, struct strides at,
                    size_t begin, size_t end, double *C, double *magnitude)
{
    for (size_t col = 0; col < N; col++)
        C[col] = 0.0;
    for (size_t col = 0; magnitude && col < N; col++)
        magnitude[col] = FLT_MIN;
    for (size_t k = begin; k < end; k++) {
        const double a = A[row * at.a_row + k * at.a_k];
        for (size_t col = 0; col < N; col++) {
            const double term = a * B[k * at.b_k + col * at.b_col];
            C[col] += term;
            if (magnitude)
                magnitude[col] += fabs(term);
        }
    }
}

static void reference(const long long sizes[MAX_SIZES], const void *const *host,
                      const struct row_list *rows, double *const *value, double *const *scale)
{
    const size_t N = (size_t)sizes[MATMUL_N], K = (size_t)sizes[MATMUL_K];
    for (size_t i = 0; i < rows[0].count; i++)
        product(host[0], host[1], N, rows[0].row[i], strides_of(N, K), 0, K, value[0] + i * N,
                scale[0] + i * N);
}

static double reference_cost(const long long sizes[MAX_SIZES])
{
    return (double)sizes[MATMUL_N] * (double)sizes[MATMUL_K];
}

static double bound_of(double K)
{
    return UNIT_ROUNDOFF_F32 * (roundings(K) + 1.0);
}

static double bound(const long long sizes[MAX_SIZES])
{
    return bound_of((double)sizes[MATMUL_K]);
}

static double flops(const long long sizes[MAX_SIZES])
{
    return 2.0 * (double)sizes[MATMUL_M] * (double)sizes[MATMUL_N] * (double)sizes[MATMUL_K];
}

static double compulsory_bytes(const long long sizes[MAX_SIZES])
{
    const double M = (double)sizes[MATMUL_M], N = (double)sizes[MATMUL_N],
                 K = (double)sizes[MATMUL_K];
    return sizeof(float) * (M * K + K * N + M * N);
}

cudaError_t matmul_run_sizes(const struct kernel *kernel, const long long sizes[MAX_SIZES],
                             void *const *device, void *workspace, cudaStream_t stream)
{
    (void)workspace;
    return matmul_run((const struct matmul_kernel *)kernel, device[0], device[1], device[2],
                      (int)sizes[MATMUL_M], (int)sizes[MATMUL_N], (int)sizes[MATMUL_K], stream);
}

/* ---- Cases ---- */

static const struct case_family cases[] = {
    {CASES_QUICK, "--sizes 16..64/16x16x16,64..128/32x32..96/32x48..96/16", "whole tiles"},
    {CASES_FIRST, "--sizes 33..47x20..31x41..60", "ragged tiles"},
    {CASES_QUICK, "--sizes 5..9x70..90x1..4,129..140x67..79x18..35", "ragged tiles"},
    {CASES_QUICK, "--m 20..40 --n 9..30 --k 0", "an empty sum"},
    {CASES_QUICK, "--m 40..60 --n 36..60 --k 30..70 --inputs uniform", "sums that do not cancel"},
    {CASES_USUAL,
     "--sizes 1x1x1,2x2x2,3x3x3,7x7x7,15x15x15,16x16x16,17x17x17,31x31x31,32x32x32,"
     "33x33x33,63x63x63,64x64x64,65x65x65,80x80x80,100x100x100,127x127x127,128x128x128,"
     "129x129x129",
     "sides below, at and above each tile"},
    {CASES_USUAL,
     "--sizes 37x53x71,71x37x53,53x71x37,131x67x19,19x131x67,67x19x131,257x263x9,1x515x33,"
     "515x1x33,1x1x203,3x5x300,1000x3x5,3x1000x5,64x128x24,128x64x24,129x127x25,"
     "127x129x95,128x128x96",
     "a swapped pair of sizes"},
    {CASES_USUAL, "--m 20 --n 24 --k 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,33,36,39,42,45,48",
     "the last tile along K, of every length"},
    {CASES_USUAL, "--sizes 1x1x0,200x150x0,0x7x9,7x0x9,0x0x9,0x0x0,0x7x0", "nothing to do"},
    {CASES_USUAL, "--sizes 1..40x1..40x2..40,40..150x1..9x1..70,1..9x40..150x1..70",
     "small, tall and wide"},
    {CASES_USUAL, "--m 60..70 --n 60..70 --k 200..300 --inputs uniform", "a long sum"},
    {CASES_USUAL, "--m 5..20 --n 5..20 --k 1500..2500", "a very long sum"},
    {CASES_USUAL, "--m 33..50 --n 65..80 --k 70..90 --inputs all", "values of each kind"},
    {CASES_USUAL, "--m 130 --n 20 --k 140 --inputs all", "values of each kind"},
    {CASES_USUAL, "--sizes 128x256x64,35x37x19,130x261x70 --inputs special",
     "what lies past an edge, times an infinity"},
    {CASES_USUAL, "--m 64 --n 64 --k 64 --offset 4,8,12", "rows that are not aligned to 16 bytes"},
    {CASES_USUAL, "--m 130 --n 132 --k 20 --offset 4,8,12", "rows that are not aligned"},
    {CASES_USUAL, "--m 33..60 --n 35..60 --k 37..60 --offset 4,8,12", "rows that are not aligned"},
    {CASES_USUAL, "--m 36 --n 40 --k 20 --offset 4 --offset-of A,B,C", "one array off alignment"},
    {CASES_USUAL, "--m 132 --n 260 --k 64 --offset 4 --offset-of A,B,C", "one array off alignment"},
    {CASES_USUAL, "--m 64 --n 128 --k 256 --offset 4 --offset-of A,B,C", "one array off alignment"},
    {CASES_USUAL, "--sizes 5000x2x3,2x5000x3", "many tiles along one side"},
    {CASES_USUAL, "--sizes 300..310x130..140x20..30,61..70x150..160x70..80 --launches 3",
     "what one launch leaves to the next"},
    {CASES_FULL, "--sizes 66000x1x1,1x66000x1", "more tiles than 16 bits count"},
    {CASES_FULL, "--sizes 255x257x31,256x255x32,257x256x33,383x130x96",
     "tiles of 256, just below and above"},
    {0},
};

/* ---- Mistakes ---- */

static size_t terms(const long long *sizes, int output)
{
    (void)output;
    return (size_t)sizes[MATMUL_K];
}

static void partial(const struct mistaken_row *r, size_t begin, size_t end)
{
    const size_t N = (size_t)r->sizes[MATMUL_N], K = (size_t)r->sizes[MATMUL_K];
    product(r->host[0], r->host[1], N, r->row, strides_of(N, K), begin, end, r->value, NULL);
}

/* Returns false where the strides leave the arrays. */
static bool strided(const struct mistaken_row *r, struct strides at)
{
    const size_t M = (size_t)r->sizes[MATMUL_M], N = (size_t)r->sizes[MATMUL_N],
                 K = (size_t)r->sizes[MATMUL_K];
    if (K == 0 || (M - 1) * at.a_row + (K - 1) * at.a_k >= M * K ||
        (K - 1) * at.b_k + (N - 1) * at.b_col >= K * N)
        return false;
    product(r->host[0], r->host[1], N, r->row, at, 0, K, r->value, NULL);
    return true;
}

enum { LARGEST_TILE = 32 };

/* Defines a kernel whose strides, `at`, differ from the right ones, where that is possible. */
#define STRIDED(name, possible, change)                                                            \
    static bool name(const struct mistaken_row *r)                                                 \
    {                                                                                              \
        const size_t M = (size_t)r->sizes[MATMUL_M], N = (size_t)r->sizes[MATMUL_N],               \
                     K = (size_t)r->sizes[MATMUL_K];                                               \
        struct strides at = strides_of(N, K);                                                      \
        (void)M, (void)N, (void)K;                                                                 \
        change;                                                                                    \
        return (possible) && strided(r, at);                                                       \
    }
/* Where a square matrix fits into a tile, its values do not say which of the two is read
 * transposed. */
STRIDED(A_or_tile_transposed, M == K && K <= LARGEST_TILE, (at.a_row = 1, at.a_k = M))
STRIDED(B_or_tile_transposed, N == K && K <= LARGEST_TILE, (at.b_k = 1, at.b_col = K))
STRIDED(A_transposed, true, (at.a_row = 1, at.a_k = M))
STRIDED(B_transposed, true, (at.b_k = 1, at.b_col = K))
STRIDED(both_transposed, true, (at.a_row = 1, at.a_k = M, at.b_k = 1, at.b_col = K))
STRIDED(A_strided_by_N, true, at.a_row = N)
STRIDED(B_strided_by_K, true, at.b_k = K)

/*
 * Defines a kernel with tiles of T x T that does not multiply A[row][k_A] by B[k_B][col] where both
 * k are equal: `change` moves these places, or drops the product. The element of C is in row y and
 * column x of its tile.
 */
#define TILED(name, change)                                                                        \
    static bool name(const struct mistaken_row *r)                                                 \
    {                                                                                              \
        const size_t M = (size_t)r->sizes[MATMUL_M], N = (size_t)r->sizes[MATMUL_N],               \
                     K = (size_t)r->sizes[MATMUL_K], T = r->tile, y = r->row % T;                  \
        const float *A = r->host[0], *B = r->host[1];                                              \
        for (size_t col = 0; col < N; col++) {                                                     \
            r->value[col] = 0.0;                                                                   \
            for (size_t k = 0; k < K; k++) {                                                       \
                const size_t x = col % T, k0 = k / T * T;                                          \
                size_t row_A = r->row, k_A = k, k_B = k, col_B = col;                              \
                bool counts = true;                                                                \
                (void)x, (void)y, (void)k0;                                                        \
                change;                                                                            \
                if (counts && row_A < M && k_A < K && k_B < K && col_B < N)                        \
                    r->value[col] += (double)A[row_A * K + k_A] * B[k_B * N + col_B];              \
            }                                                                                      \
        }                                                                                          \
        return M >= T && N >= T && K >= T;                                                         \
    }
TILED(first_tile_of_A, k_A = k - k0)
TILED(first_tile_of_B, k_B = k - k0)
TILED(tile_of_A_transposed, (row_A = r->row - y + k - k0, k_A = k0 + y))
TILED(tile_of_B_transposed, (k_B = k0 + x, col_B = col - x + k - k0))
TILED(A_of_one_thread, counts = k - k0 == x)
TILED(B_of_one_thread, counts = k - k0 == y)
TILED(tiles_of_one_thread, counts = k - k0 == x && x == y)

/* These rows of a table are the same mistake with tiles of different sizes. */
#define TILES(name, says, compute)                                                                 \
    {name, says, compute, 8}, {name, says, compute, 16},                                           \
    {                                                                                              \
        name, says, compute, 32                                                                    \
    }

static const char not_shared[] =
    "each thread sees of a tile only the element that it stored itself: is the tile declared as "
    "__shared__? Otherwise every thread has an array of its own";

static const struct mistake mistake_list[] = {
    {"B-transposed",
     "B, or a tile of it, is read as if it were transposed: element (k, col) is B[k * N + col], "
     "not B[col * K + k]",
     B_or_tile_transposed, 0},
    {"A-transposed",
     "A, or a tile of it, is read as if it were transposed: element (row, k) is A[row * K + k], "
     "not A[k * M + row]",
     A_or_tile_transposed, 0},
    {"B-transposed",
     "B is read as if it were transposed: element (k, col) is B[k * N + col], not B[col * K + k]",
     B_transposed, 0},
    {"A-transposed",
     "A is read as if it were transposed: element (row, k) is A[row * K + k], not A[k * M + row]",
     A_transposed, 0},
    {"both-transposed",
     "A and B are both read as if they were transposed: A[row * K + k] and B[k * N + col] are "
     "right",
     both_transposed, 0},
    {"A-stride", "rows of A are taken to be N elements long; they have K: A[row * K + k]",
     A_strided_by_N, 0},
    {"B-stride", "rows of B are taken to be K elements long; they have N: B[k * N + col]",
     B_strided_by_K, 0},
    TILES("A-first-tile",
          "the first tile of A is used in place of every tile: the tile's beginning, k0, is "
          "missing in A's index",
          first_tile_of_A),
    TILES("B-first-tile",
          "the first tile of B is used in place of every tile: the tile's beginning, k0, is "
          "missing in B's index",
          first_tile_of_B),
    TILES("B-tile-transposed",
          "each tile of B is read as if it were transposed: the indices of the tile in shared "
          "memory are exchanged where it is stored or where it is read",
          tile_of_B_transposed),
    TILES("A-tile-transposed",
          "each tile of A is read as if it were transposed: the indices of the tile in shared "
          "memory are exchanged where it is stored or where it is read",
          tile_of_A_transposed),
    TILES("not-shared", not_shared, A_of_one_thread),
    TILES("not-shared", not_shared, B_of_one_thread),
    TILES("not-shared", not_shared, tiles_of_one_thread),
    {0},
};

static const struct mistakes mistakes = {
    .list = mistake_list, .terms = terms, .term = {"products"}, .partial = partial};

const struct problem matmul_problem = {
    .name = "matmul",
    .sizes = size_options,
    .row_bytes = sizeof(struct matmul_kernel),
    .tensors = tensors,
    .cost = cost,
    .inputs = inputs,
    .reference = reference,
    .reference_cost = reference_cost,
    .bound = bound,
    .flops = flops,
    .compulsory_bytes = compulsory_bytes,
    .run = matmul_run_sizes,
    .mistakes = &mistakes,
    .cases = cases,
};
