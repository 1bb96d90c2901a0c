#include "matmul.h"

#include "refusal.h"

#include <float.h>
#include <math.h>

cudaError_t matmul_check_arguments(const float *A, const float *B, const float *C, int M, int N,
                                   int K)
{
    cudaError_t status;
    if ((status = require_size("M", M)) != cudaSuccess ||
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
        (status = require_disjoint("C", C, bytes_C, "A", A, bytes_A)) != cudaSuccess)
        return status;
    return require_disjoint("C", C, bytes_C, "B", B, bytes_B);
}

static const struct size_option size_options[] = {
    [MATMUL_M] = {"m", "rows of A and C", 0, MAX_EXTENT, 64, 4096, false},
    [MATMUL_N] = {"n", "columns of B and C", 0, MAX_EXTENT, 64, 4096, false},
    [MATMUL_K] = {"k", "columns of A, rows of B", 0, MAX_EXTENT, 64, 4096, false},
    {NULL, NULL, 0, 0, 0, 0, false},
};

static struct kernel_row kernel(const void *table, size_t index)
{
    const struct matmul_kernel *row = (const struct matmul_kernel *)table + index;
    return (struct kernel_row){row->name, row->idea};
}

static cudaError_t tensors(long long sizes[MAX_SIZES], struct tensor list[MAX_TENSORS], int *count)
{
    const size_t M = (size_t)sizes[MATMUL_M], N = (size_t)sizes[MATMUL_N],
                 K = (size_t)sizes[MATMUL_K];
    list[0] = (struct tensor){"A", TENSOR_INPUT, TENSOR_F32, M, K};
    list[1] = (struct tensor){"B", TENSOR_INPUT, TENSOR_F32, K, N};
    list[2] = (struct tensor){"C", TENSOR_OUTPUT, TENSOR_F32, M, N};
    *count = 3;
    return cudaSuccess;
}

static size_t workspace(const void *table, size_t index, const long long sizes[MAX_SIZES])
{
    (void)table, (void)index, (void)sizes;
    return 0;
}

/* A takes the kind; B does too where that still leaves its elements unlike one another. */
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
static void reference(const long long sizes[MAX_SIZES], const void *const *host, size_t row,
                      double *const *value, double *const *scale)
{
    const size_t N = (size_t)sizes[MATMUL_N], K = (size_t)sizes[MATMUL_K];
    const float *A = (const float *)host[0] + row * K;
    const float *B = host[1];
    double *C = value[0], *magnitude = scale[0];

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

static cudaError_t run(const void *table, size_t index, const long long sizes[MAX_SIZES],
                       void *const *device, void *workspace_memory, cudaStream_t stream)
{
    (void)workspace_memory;
    const struct matmul_kernel *row = (const struct matmul_kernel *)table + index;
    return row->run(device[0], device[1], device[2], (int)sizes[MATMUL_M], (int)sizes[MATMUL_N],
                    (int)sizes[MATMUL_K], stream);
}

const struct problem matmul_problem = {
    .name = "matmul",
    .sizes = size_options,
    .kernel = kernel,
    .tensors = tensors,
    .workspace = workspace,
    .inputs = inputs,
    .reference = reference,
    .reference_cost = reference_cost,
    .bound = bound,
    .flops = flops,
    .compulsory_bytes = compulsory_bytes,
    .run = run,
};
