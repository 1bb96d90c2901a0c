#include "matmul.h"

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
    return row->launch(A, B, C, M, N, K, stream);
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

/* A has the kind; so does B, unless that would make its elements alike. */
static void inputs(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                   void *const *host)
{
    const size_t M = (size_t)sizes[MATMUL_M], N = (size_t)sizes[MATMUL_N],
                 K = (size_t)sizes[MATMUL_K];
    enum input_kind kind_B =
        kind == INPUTS_UNIFORM || kind == INPUTS_OUTLIERS ? kind : INPUTS_NORMAL;
    input_matrix(host[0], M, K, kind, seed, 0);
    input_matrix(host[1], K, N, kind_B, seed, 1);
}

/* The rounding errors of a sum of products are measured in the sum of their magnitudes. */
static void reference(const long long sizes[MAX_SIZES], const void *const *host, const size_t *row,
                      size_t count, double *const *value, double *const *scale)
{
    const size_t N = (size_t)sizes[MATMUL_N], K = (size_t)sizes[MATMUL_K];
    for (size_t i = 0; i < count; i++) {
        const float *A = (const float *)host[0] + row[i] * K;
        const float *B = host[1];
        double *C = value[0] + i * N, *magnitude = scale[0] + i * N;

        for (size_t col = 0; col < N; col++) {
            C[col] = 0.0;
            magnitude[col] = FLT_MIN;
        }
        for (size_t k = 0; k < K; k++) {
            const double a = A[k];
            for (size_t col = 0; col < N; col++) {
                const double product = a * B[k * N + col];
                C[col] += product;
                magnitude[col] += fabs(product);
            }
        }
    }
}

static double reference_cost(const long long sizes[MAX_SIZES])
{
    return (double)sizes[MATMUL_N] * (double)sizes[MATMUL_K];
}

static double bound(const long long sizes[MAX_SIZES])
{
    return UNIT_ROUNDOFF_F32 * (roundings((double)sizes[MATMUL_K]) + 1.0);
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

static cudaError_t run(const struct kernel *kernel, const long long sizes[MAX_SIZES],
                       void *const *device, void *workspace, cudaStream_t stream)
{
    (void)workspace;
    return matmul_run((const struct matmul_kernel *)kernel, device[0], device[1], device[2],
                      (int)sizes[MATMUL_M], (int)sizes[MATMUL_N], (int)sizes[MATMUL_K], stream);
}

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
    .run = run,
    .mistakes = &matmul_mistakes,
};
