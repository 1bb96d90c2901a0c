#include "attention.h"

#include "check.h"
#include "refusal.h"

#include <float.h>
#include <math.h>

size_t attention_query_rows(const struct attention_shape *shape)
{
    if (shape == NULL || shape->batch < 0 || shape->heads < 0 || shape->seq_q < 0)
        return 0;
    return (size_t)shape->batch * shape->heads * shape->seq_q;
}

/* Kernels number the rows of Q, and of K, over all batches and heads with an int. */
static cudaError_t require_rows(const char *names, int batch, int heads, int seq)
{
    const double rows = (double)batch * heads * seq;
    if (rows > INT_MAX)
        return refuse(cudaErrorInvalidValue, "%s is %.0f; it must be at most %d", names, rows,
                      INT_MAX);
    return cudaSuccess;
}

/* What every attention kernel demands of a shape, whatever its own limits. */
static cudaError_t check_shape(const struct attention_shape *shape)
{
    cudaError_t status;
    if ((status = require_size("batch", shape->batch)) != cudaSuccess ||
        (status = require_size("heads", shape->heads)) != cudaSuccess ||
        (status = require_size("seq_q", shape->seq_q)) != cudaSuccess ||
        (status = require_size("seq_kv", shape->seq_kv)) != cudaSuccess)
        return status;
    if (shape->heads == 0)
        return cudaSuccess;
    if (shape->kv_heads < 1 || shape->heads % shape->kv_heads != 0)
        return refuse(cudaErrorInvalidValue, "kv_heads is %d; it must divide heads, which is %d",
                      shape->kv_heads, shape->heads);
    if ((status = require_rows("batch * heads * seq_q", shape->batch, shape->heads,
                               shape->seq_q)) != cudaSuccess)
        return status;
    return require_rows("batch * kv_heads * seq_kv", shape->batch, shape->kv_heads, shape->seq_kv);
}

static cudaError_t check_limits(const struct attention_shape *shape,
                                const struct attention_limits *limits)
{
    if (shape->head_dim < 1 || shape->head_dim > limits->max_head_dim)
        return refuse(cudaErrorInvalidValue, "head_dim is %d; this kernel takes 1 .. %d",
                      shape->head_dim, limits->max_head_dim);
    if (shape->head_dim % limits->head_dim_multiple != 0)
        return refuse(cudaErrorInvalidValue,
                      "head_dim is %d; this kernel takes multiples of %d up to %d", shape->head_dim,
                      limits->head_dim_multiple, limits->max_head_dim);
    if (shape->causal && !limits->causal)
        return refuse(cudaErrorInvalidValue, "causal is asked for; this kernel has no causal mask");
    if (!isfinite(shape->scale))
        return refuse(cudaErrorInvalidValue, "scale is %g; it must be finite",
                      (double)shape->scale);
    return cudaSuccess;
}

cudaError_t attention_check_arguments(const void *Q, const void *K, const void *V, const void *O,
                                      const float *LSE, const void *workspace,
                                      size_t workspace_bytes, const struct attention_shape *shape,
                                      size_t element_bytes, const struct attention_limits *limits)
{
    if (shape == NULL)
        return refuse(cudaErrorInvalidValue, "shape is null");
    cudaError_t status = check_shape(shape);
    if (status == cudaSuccess)
        status = check_limits(shape, limits);
    const size_t rows = attention_query_rows(shape);
    if (status != cudaSuccess || rows == 0)
        return status;

    const size_t bytes_Q = rows * shape->head_dim * element_bytes;
    const size_t bytes_K =
        (size_t)shape->batch * shape->kv_heads * shape->seq_kv * shape->head_dim * element_bytes;
    const size_t workspace_alignment = 256;
    const struct {
        const char *name;
        const void *pointer;
        size_t bytes, alignment;
    } array[] = {
        {"Q", Q, bytes_Q, element_bytes},
        {"K", K, bytes_K, element_bytes},
        {"V", V, bytes_K, element_bytes},
        {"O", O, bytes_Q, element_bytes},
        {"LSE", LSE, LSE ? rows * sizeof *LSE : 0, sizeof *LSE},
        {"workspace", workspace, workspace_bytes, workspace_alignment},
    };
    enum { FIRST_WRITTEN = 3, ARRAYS = sizeof array / sizeof array[0] };

    for (int a = 0; a < ARRAYS && status == cudaSuccess; a++)
        status =
            require_pointer(array[a].name, array[a].pointer, array[a].bytes, array[a].alignment);
    for (int a = FIRST_WRITTEN; a < ARRAYS; a++)
        for (int b = 0; b < a && status == cudaSuccess; b++)
            status = require_disjoint(array[a].name, array[a].pointer, array[a].bytes,
                                      array[b].name, array[b].pointer, array[b].bytes);
    return status;
}

/* -------------------------------------------------------------------------------------------------
 * The problem as the harness sees it. Only tensors() may meet a kv_heads, seq_q or seq_kv that
 * still says "as ...".
 */

enum { MAX_HEAD_DIM = 256 };

static const struct size_option size_options[] = {
    [ATTENTION_BATCH] = {"batch", "sequences", 0, MAX_EXTENT, 1, 4, false},
    [ATTENTION_HEADS] = {"heads", "query heads", 0, MAX_EXTENT, 2, 32, false},
    [ATTENTION_KV_HEADS] = {"kv-heads", "key/value heads, a divisor of heads; 0: as heads", 0,
                            MAX_EXTENT, 0, 0, false},
    [ATTENTION_SEQ] = {"seq", "queries and keys", 0, MAX_EXTENT, 64, 1024, false},
    [ATTENTION_SEQ_Q] = {"seq-q", "queries; 0: as seq", 0, MAX_EXTENT, 0, 0, false},
    [ATTENTION_SEQ_KV] = {"seq-kv", "keys; 0: as seq", 0, MAX_EXTENT, 0, 0, false},
    [ATTENTION_HEAD_DIM] = {"head-dim", "elements of a query, key or value", 1, MAX_HEAD_DIM, 16,
                            64, false},
    [ATTENTION_CAUSAL] = {"causal", "mask the keys that come after a query", 0, 1, 0, 0, true},
    {NULL, NULL, 0, 0, 0, 0, false},
};

static struct attention_shape shape_of(const long long sizes[MAX_SIZES])
{
    return (struct attention_shape){
        .batch = (int)sizes[ATTENTION_BATCH],
        .heads = (int)sizes[ATTENTION_HEADS],
        .kv_heads = (int)sizes[ATTENTION_KV_HEADS],
        .seq_q = (int)sizes[ATTENTION_SEQ_Q],
        .seq_kv = (int)sizes[ATTENTION_SEQ_KV],
        .head_dim = (int)sizes[ATTENTION_HEAD_DIM],
        .causal = sizes[ATTENTION_CAUSAL] != 0,
        .scale = 1.0f / sqrtf((float)sizes[ATTENTION_HEAD_DIM]),
    };
}

/* Pairs of a query and a key it sees, in one head. */
static double visible_pairs(const struct attention_shape *shape)
{
    const double queries = shape->seq_q, keys = shape->seq_kv;
    if (!shape->causal)
        return queries * keys;
    /* The last `corner` queries see one key fewer than the query after them; earlier ones see
     * none. */
    const double corner = fmin(queries, keys);
    return corner * (keys - corner) + corner * (corner + 1.0) / 2.0;
}

static struct kernel_row kernel(const void *table, size_t index)
{
    const struct attention_kernel *row = (const struct attention_kernel *)table + index;
    return (struct kernel_row){row->name, row->idea};
}

static struct kernel_row kernel_half(const void *table, size_t index)
{
    const struct attention_half_kernel *row = (const struct attention_half_kernel *)table + index;
    return (struct kernel_row){row->name, row->idea};
}

static cudaError_t tensors_of(long long sizes[MAX_SIZES], struct tensor list[MAX_TENSORS],
                              int *count, enum tensor_type type)
{
    if (sizes[ATTENTION_KV_HEADS] == 0)
        sizes[ATTENTION_KV_HEADS] = sizes[ATTENTION_HEADS];
    if (sizes[ATTENTION_SEQ_Q] == 0)
        sizes[ATTENTION_SEQ_Q] = sizes[ATTENTION_SEQ];
    if (sizes[ATTENTION_SEQ_KV] == 0)
        sizes[ATTENTION_SEQ_KV] = sizes[ATTENTION_SEQ];

    const struct attention_shape shape = shape_of(sizes);
    const cudaError_t status = check_shape(&shape);
    if (status != cudaSuccess)
        return status;

    const size_t rows = attention_query_rows(&shape), head_dim = (size_t)shape.head_dim;
    const size_t kv_rows = (size_t)shape.batch * shape.kv_heads * shape.seq_kv;
    list[0] = (struct tensor){"Q", TENSOR_INPUT, type, rows, head_dim};
    list[1] = (struct tensor){"K", TENSOR_INPUT, type, kv_rows, head_dim};
    list[2] = (struct tensor){"V", TENSOR_INPUT, type, kv_rows, head_dim};
    list[3] = (struct tensor){"O", TENSOR_OUTPUT, type, rows, head_dim};
    list[4] = (struct tensor){"LSE", TENSOR_OUTPUT, TENSOR_F32, rows, 1};
    *count = 5;
    return cudaSuccess;
}

static cudaError_t tensors(long long sizes[MAX_SIZES], struct tensor list[MAX_TENSORS], int *count)
{
    return tensors_of(sizes, list, count, TENSOR_F32);
}

static cudaError_t tensors_half(long long sizes[MAX_SIZES], struct tensor list[MAX_TENSORS],
                                int *count)
{
    return tensors_of(sizes, list, count, TENSOR_F16);
}

static size_t workspace_bytes_of(attention_workspace_fn *asks, const long long sizes[MAX_SIZES])
{
    const struct attention_shape shape = shape_of(sizes);
    return asks ? asks(&shape) : 0;
}

static size_t workspace(const void *table, size_t index, const long long sizes[MAX_SIZES])
{
    return workspace_bytes_of(((const struct attention_kernel *)table)[index].workspace, sizes);
}

static size_t workspace_half(const void *table, size_t index, const long long sizes[MAX_SIZES])
{
    return workspace_bytes_of(((const struct attention_half_kernel *)table)[index].workspace,
                              sizes);
}

/* -------------------------------------------------------------------------------------------------
 * Inputs. What a kind says about "the values" is a wish about the scores here; V stays as random as
 * the kind allows, so that a probability meeting the wrong row of V shows.
 */

enum { STREAM_Q, STREAM_K, STREAM_V, STREAM_Q_REACH, STREAM_K_REACH, STREAM_SIGN };

/* A query whose scores of LARGE keys are all of one sign and 104 to 200 in magnitude: e^-104 is 0
 * in float. */
static double element_Q(const struct attention_shape *shape, enum input_kind kind, uint64_t seed,
                        size_t row, size_t col)
{
    const size_t cols = (size_t)shape->head_dim, index = row * cols + col;
    switch (kind) {
    case INPUTS_LARGE: {
        const double largest = sqrt(200.0 / (shape->scale * shape->head_dim));
        const double sign = input_bits(seed, STREAM_SIGN, row) & 1 ? 1.0 : -1.0;
        const double reach = 0.8 + 0.2 * input_uniform(seed, STREAM_Q_REACH, row);
        return sign * largest * reach * (0.9 + 0.1 * input_uniform(seed, STREAM_Q, index));
    }
    case INPUTS_ASCENDING:
    case INPUTS_DESCENDING:
        return 1.0 + 0.1 * input_normal(seed, STREAM_Q, index);
    case INPUTS_CONSTANT:
        return input_normal(seed, STREAM_Q, index);
    default:
        return input_element(row, col, cols, kind, seed, STREAM_Q);
    }
}

/* ASCENDING and DESCENDING keys give scores that run from 0 to 20 or back; with CONSTANT all keys
 * of a head tie. */
static double element_K(const struct attention_shape *shape, enum input_kind kind, uint64_t seed,
                        size_t row, size_t col)
{
    const size_t cols = (size_t)shape->head_dim, index = row * cols + col;
    const size_t head = row / (size_t)shape->seq_kv, key = row % (size_t)shape->seq_kv;
    switch (kind) {
    case INPUTS_LARGE: {
        const double largest = sqrt(200.0 / (shape->scale * shape->head_dim));
        const double reach = 0.8 + 0.2 * input_uniform(seed, STREAM_K_REACH, row);
        return largest * reach * (0.9 + 0.1 * input_uniform(seed, STREAM_K, index));
    }
    case INPUTS_ASCENDING:
    case INPUTS_DESCENDING: {
        const double along = shape->seq_kv > 1 ? (double)key / (shape->seq_kv - 1) : 0.0;
        const double score = 20.0 * (kind == INPUTS_ASCENDING ? along : 1.0 - along);
        return score / (shape->scale * shape->head_dim) + 0.1 * input_normal(seed, STREAM_K, index);
    }
    case INPUTS_CONSTANT:
        return input_normal(seed, STREAM_K, head * cols + col);
    default:
        return input_element(row, col, cols, kind, seed, STREAM_K);
    }
}

static double element_V(const struct attention_shape *shape, enum input_kind kind, uint64_t seed,
                        size_t row, size_t col)
{
    const enum input_kind kind_V =
        kind == INPUTS_UNIFORM || kind == INPUTS_OUTLIERS ? kind : INPUTS_NORMAL;
    return input_element(row, col, (size_t)shape->head_dim, kind_V, seed, STREAM_V);
}

/* The nearest half, ties to even, by its bits. */
static uint16_t half_bits(double x)
{
    const double magnitude = fabs(x);
    const unsigned sign = signbit(x) ? 0x8000u : 0u;
    unsigned bits;
    if (magnitude < 0x1p-14) {
        /* 1024 is, rightly, the smallest normal number */
        bits = (unsigned)nearbyint(magnitude * 0x1p24);
    } else if (magnitude < 65520.0) {
        const int exponent = ilogb(magnitude);
        const unsigned significand = (unsigned)nearbyint(ldexp(magnitude, 10 - exponent));
        /* 2048 carries into the exponent */
        bits = ((unsigned)(exponent + 15) << 10) + (significand - 1024u);
    } else {
        bits = 0x7c00u;
    }
    return (uint16_t)(sign | bits);
}

static void store(void *data, enum tensor_type type, size_t index, double x)
{
    if (type == TENSOR_F16)
        ((uint16_t *)data)[index] = half_bits(x);
    else
        ((float *)data)[index] = (float)x;
}

static void inputs_of(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                      void *const *host, enum tensor_type type)
{
    const struct attention_shape shape = shape_of(sizes);
    const size_t cols = (size_t)shape.head_dim;
    const size_t elements_Q = attention_query_rows(&shape) * cols;
    const size_t elements_K = (size_t)shape.batch * shape.kv_heads * shape.seq_kv * cols;

    for (size_t index = 0; index < elements_Q; index++)
        store(host[0], type, index, element_Q(&shape, kind, seed, index / cols, index % cols));
    for (size_t index = 0; index < elements_K; index++) {
        store(host[1], type, index, element_K(&shape, kind, seed, index / cols, index % cols));
        store(host[2], type, index, element_V(&shape, kind, seed, index / cols, index % cols));
    }
}

static void inputs(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                   void *const *host)
{
    inputs_of(sizes, kind, seed, host, TENSOR_F32);
}

static void inputs_half(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                        void *const *host)
{
    inputs_of(sizes, kind, seed, host, TENSOR_F16);
}

/* -------------------------------------------------------------------------------------------------
 * The reference, one query at a time: once over the keys for the largest score, once for everything
 * else.
 */

struct query {
    double q[MAX_HEAD_DIM];
    double norm; /* ||q|| */
    size_t head_dim, first_key, visible;
    double scale;
    enum tensor_type type;
};

static void load_query(struct query *query, const struct attention_shape *shape, const void *Q,
                       size_t row, enum tensor_type type)
{
    const size_t seq_q = (size_t)shape->seq_q, seq_kv = (size_t)shape->seq_kv;
    const size_t head = row / seq_q, i = row % seq_q,
                 group = (size_t)(shape->heads / shape->kv_heads);
    query->head_dim = (size_t)shape->head_dim;
    query->first_key = head / group * seq_kv;
    query->visible = seq_kv;
    if (shape->causal) /* j <= i + seq_kv - seq_q */
        query->visible = i + 1 + seq_kv > seq_q ? i + 1 + seq_kv - seq_q : 0;
    query->scale = shape->scale;
    query->type = type;

    double squares = 0.0;
    for (size_t k = 0; k < query->head_dim; k++) {
        query->q[k] = tensor_element(Q, type, row * query->head_dim + k);
        squares += query->q[k] * query->q[k];
    }
    query->norm = sqrt(squares);
}

/* The scaled score of key j, and what bounds it and its rounding errors: |scale|·||q||·||k||. */
static double score(const struct query *query, const void *K, size_t j, double *reach)
{
    const size_t first = (query->first_key + j) * query->head_dim;
    double product = 0.0, squares = 0.0;
    for (size_t k = 0; k < query->head_dim; k++) {
        const double element = tensor_element(K, query->type, first + k);
        product += query->q[k] * element;
        squares += element * element;
    }
    *reach = fabs(query->scale) * query->norm * sqrt(squares);
    return query->scale * product;
}

/*
 * scale[0][c] begins as the sum of P·|v| and ends as that times 1 + A, A the largest reach of a
 * visible key: a rounding error of a score is a relative error of its exponential. Below the type's
 * smallest normal number the spacing of results, and of the probabilities that V is multiplied
 * with, is fixed: the last term.
 */
static void reference_of(const long long sizes[MAX_SIZES], const void *const *host, size_t row,
                         double *const *value, double *const *scale, enum tensor_type type)
{
    const struct attention_shape shape = shape_of(sizes);
    struct query query;
    load_query(&query, &shape, host[0], row, type);

    double m = -INFINITY, A = 0.0, reach;
    for (size_t j = 0; j < query.visible; j++) {
        m = fmax(m, score(&query, host[1], j, &reach));
        A = fmax(A, reach);
    }

    double *O = value[0], *weight = scale[0];
    double magnitude[MAX_HEAD_DIM]; /* sum of |v|: what small probabilities are multiplied with */
    for (size_t c = 0; c < query.head_dim; c++)
        O[c] = weight[c] = magnitude[c] = 0.0;

    double l = 0.0;
    for (size_t j = 0; j < query.visible; j++) {
        const double p = exp(score(&query, host[1], j, &reach) - m);
        l += p;
        for (size_t c = 0; c < query.head_dim; c++) {
            const double v =
                tensor_element(host[2], type, (query.first_key + j) * query.head_dim + c);
            O[c] += p * v;
            weight[c] += p * fabs(v);
            magnitude[c] += fabs(v);
        }
    }

    const double normalise = query.visible > 0 ? 1.0 / l : 0.0;
    const double smallest_normal = type == TENSOR_F16 ? 0x1p-14 : FLT_MIN;
    for (size_t c = 0; c < query.head_dim; c++) {
        O[c] *= normalise;
        weight[c] =
            weight[c] * normalise * (1.0 + A) + smallest_normal * (1.0 + magnitude[c] * normalise);
    }
    value[1][0] = query.visible > 0 ? m + log(l) : -INFINITY;
    scale[1][0] = query.visible > 0 ? 1.0 + A + fabs(value[1][0]) : 1.0;
}

static void reference(const long long sizes[MAX_SIZES], const void *const *host, size_t row,
                      double *const *value, double *const *scale)
{
    reference_of(sizes, host, row, value, scale, TENSOR_F32);
}

static double reference_cost(const long long sizes[MAX_SIZES])
{
    const struct attention_shape shape = shape_of(sizes);
    return 5.0 * shape.seq_kv * shape.head_dim;
}

static double bound(const long long sizes[MAX_SIZES])
{
    const struct attention_shape shape = shape_of(sizes);
    const double sums = 2.0 * (roundings(shape.head_dim) + 4.0) + 2.0 * roundings(shape.seq_kv);
    return UNIT_ROUNDOFF_F32 * (sums + 16.0);
}

/* P and O are rounded to half, and what small probabilities lose is counted once more. */
static double bound_half(const long long sizes[MAX_SIZES])
{
    return bound(sizes) + 3.0 * UNIT_ROUNDOFF_F16;
}

/* LSE never touches half precision: its scale is what the wider bound must be multiplied with to
 * stay as strict. */
static void reference_half(const long long sizes[MAX_SIZES], const void *const *host, size_t row,
                           double *const *value, double *const *scale)
{
    reference_of(sizes, host, row, value, scale, TENSOR_F16);
    scale[1][0] *= bound(sizes) / bound_half(sizes);
}

static double flops(const long long sizes[MAX_SIZES])
{
    const struct attention_shape shape = shape_of(sizes);
    return 4.0 * visible_pairs(&shape) * shape.head_dim * shape.batch * shape.heads;
}

static double compulsory_bytes_of(const long long sizes[MAX_SIZES], enum tensor_type type)
{
    const struct attention_shape shape = shape_of(sizes);
    const double rows = (double)attention_query_rows(&shape);
    const double kv_rows = (double)shape.batch * shape.kv_heads * shape.seq_kv;
    return 2.0 * (rows + kv_rows) * shape.head_dim * (double)tensor_element_bytes(type) +
           rows * sizeof(float);
}

static double compulsory_bytes(const long long sizes[MAX_SIZES])
{
    return compulsory_bytes_of(sizes, TENSOR_F32);
}

static double compulsory_bytes_half(const long long sizes[MAX_SIZES])
{
    return compulsory_bytes_of(sizes, TENSOR_F16);
}

static cudaError_t run(const void *table, size_t index, const long long sizes[MAX_SIZES],
                       void *const *device, void *workspace_memory, cudaStream_t stream)
{
    const struct attention_shape shape = shape_of(sizes);
    const struct attention_kernel *row = (const struct attention_kernel *)table + index;
    return row->run(device[0], device[1], device[2], device[3], device[4], workspace_memory, &shape,
                    stream);
}

static cudaError_t run_half(const void *table, size_t index, const long long sizes[MAX_SIZES],
                            void *const *device, void *workspace_memory, cudaStream_t stream)
{
    const struct attention_shape shape = shape_of(sizes);
    const struct attention_half_kernel *row = (const struct attention_half_kernel *)table + index;
    return row->run(device[0], device[1], device[2], device[3], device[4], workspace_memory, &shape,
                    stream);
}

const struct problem attention_problem = {
    .name = "attention",
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

const struct problem attention_half_problem = {
    .name = "attention in half precision",
    .sizes = size_options,
    .kernel = kernel_half,
    .tensors = tensors_half,
    .workspace = workspace_half,
    .inputs = inputs_half,
    .reference = reference_half,
    .reference_cost = reference_cost,
    .bound = bound_half,
    .flops = flops,
    .compulsory_bytes = compulsory_bytes_half,
    .run = run_half,
};
