#include "attention_backward.h"

#include "harness/cases.h"
#include "harness/explain.h"
#include "harness/refusal.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The tensors, in the harness's order. */
enum { AT_Q, AT_K, AT_V, AT_O, AT_LSE, AT_dO, AT_dQ, AT_dK, AT_dV, TENSORS, INPUTS = AT_dQ };

/* Returns the forward pass that a call belongs to, with what both share. */
static struct attention forward_of(const struct attention_backward *call)
{
    return (struct attention){.batch = call->batch,
                              .heads = call->heads,
                              .kv_heads = call->kv_heads,
                              .seq_q = call->seq_q,
                              .seq_kv = call->seq_kv,
                              .head_dim = call->head_dim,
                              .causal = call->causal,
                              .scale = call->scale,
                              .type = call->type};
}

/* Returns the row of a forward kernel that has the same limits. */
static struct attention_kernel limits_of(const struct attention_backward_kernel *row)
{
    return (struct attention_kernel){.about = row->about,
                                     .types = row->types,
                                     .max_head_dim = row->max_head_dim,
                                     .head_dim_multiple = row->head_dim_multiple,
                                     .alignment = row->alignment,
                                     .causal = row->causal};
}

size_t attention_backward_query_rows(const struct attention_backward *call)
{
    return attention_rows(call->batch, call->heads, call->seq_q);
}

size_t attention_backward_key_rows(const struct attention_backward *call)
{
    return attention_rows(call->batch, call->kv_heads, call->seq_kv);
}

/* Checks the pointers of a valid shape. */
static cudaError_t check_arrays(const struct attention_backward_kernel *row,
                                const struct attention_backward *call)
{
    const size_t element = tensor_element_bytes(call->type), workspace_alignment = 256;
    const size_t alignment = row->alignment ? (size_t)row->alignment : element;
    const size_t rows = attention_backward_query_rows(call);
    const size_t bytes_Q = rows * (size_t)call->head_dim * element;
    const size_t bytes_K = attention_backward_key_rows(call) * (size_t)call->head_dim * element;
    const struct {
        const char *name;
        const void *pointer;
        size_t bytes, alignment;
    } array[] = {
        {"Q", call->Q, bytes_Q, alignment},
        {"K", call->K, bytes_K, alignment},
        {"V", call->V, bytes_K, alignment},
        {"O", call->O, bytes_Q, alignment},
        {"LSE", call->LSE, rows * sizeof *call->LSE, sizeof *call->LSE},
        {"dO", call->dO, bytes_Q, alignment},
        {"dQ", call->dQ, bytes_Q, alignment},
        {"dK", call->dK, bytes_K, alignment},
        {"dV", call->dV, bytes_K, alignment},
        {"workspace", call->workspace, row->workspace ? row->workspace(call) : 0,
         workspace_alignment},
    };
    enum { ARRAYS = sizeof array / sizeof array[0] };

    cudaError_t status = cudaSuccess;
    for (int a = 0; a < ARRAYS && status == cudaSuccess; a++)
        status =
            require_pointer(array[a].name, array[a].pointer, array[a].bytes, array[a].alignment);
    for (int a = INPUTS; a < ARRAYS; a++)
        for (int b = 0; b < a && status == cudaSuccess; b++)
            status = require_disjoint(array[a].name, array[a].pointer, array[a].bytes,
                                      array[b].name, array[b].pointer, array[b].bytes);
    return status;
}

/* Sets the gradients to 0: there is no pair of a query and a key. */
static cudaError_t clear(const struct attention_backward *call)
{
    const size_t row_bytes = (size_t)call->head_dim * tensor_element_bytes(call->type);
    const size_t bytes_Q = attention_backward_query_rows(call) * row_bytes;
    const size_t bytes_K = attention_backward_key_rows(call) * row_bytes;
    cudaError_t status = cudaSuccess;
    if (bytes_Q > 0)
        status = cudaMemsetAsync(call->dQ, 0, bytes_Q, call->stream);
    if (bytes_K > 0 && status == cudaSuccess)
        status = cudaMemsetAsync(call->dK, 0, bytes_K, call->stream);
    if (bytes_K > 0 && status == cudaSuccess)
        status = cudaMemsetAsync(call->dV, 0, bytes_K, call->stream);
    return status;
}

cudaError_t attention_backward_run(const struct attention_backward_kernel *row,
                                   const struct attention_backward *call)
{
    if (call == NULL)
        return refuse(cudaErrorInvalidValue, "the call is null");
    const struct attention forward = forward_of(call);
    const struct attention_kernel limits = limits_of(row);
    cudaError_t status;
    if ((status = require_device(&row->about)) != cudaSuccess ||
        (status = attention_check_shape(&forward)) != cudaSuccess ||
        (status = attention_check_limits(&limits, &forward)) != cudaSuccess ||
        (status = check_arrays(row, call)) != cudaSuccess)
        return status;
    const bool pairs = attention_backward_query_rows(call) > 0 && call->seq_kv > 0;
    launch_begins();
    return launch_ends(pairs ? row->launch(call) : clear(call));
}

/* -------------------------------------------------------------------------------------------------
 * The problem as the harness sees it.
 */

enum { MAX_HEAD_DIM = 256 };

/* The forward problem narrows its sizes by its own rows. A trial computes O and LSE on the host, so
 * there are fewer heads than forward. */
static void narrow(const void *table, struct size_option *sizes)
{
    const struct attention_backward_kernel *row = table;
    size_t count = 0;
    while (row[count].about.name)
        count++;
    struct attention_kernel *limits = calloc(count + 1, sizeof *limits);
    if (!limits)
        abort(); /* there are not even a few kilobytes left */
    for (size_t i = 0; i < count; i++)
        limits[i] = limits_of(&row[i]);
    attention_problem.narrow(limits, sizes);
    free(limits);
    sizes[ATTENTION_BATCH].device = 1;
    sizes[ATTENTION_HEADS].device = 8;
}

static void print_limits(const struct kernel *kernel)
{
    const struct attention_kernel limits =
        limits_of((const struct attention_backward_kernel *)kernel);
    attention_problem.print_limits(&limits.about);
}

struct attention_backward attention_backward_of(const long long sizes[MAX_SIZES])
{
    const struct attention forward = attention_of(sizes);
    return (struct attention_backward){.batch = forward.batch,
                                       .heads = forward.heads,
                                       .kv_heads = forward.kv_heads,
                                       .seq_q = forward.seq_q,
                                       .seq_kv = forward.seq_kv,
                                       .head_dim = forward.head_dim,
                                       .causal = forward.causal,
                                       .scale = forward.scale,
                                       .type = forward.type};
}

/* Returns a tensor of this name that is otherwise like another. */
static struct tensor like(const struct tensor *other, const char *name, enum tensor_role role)
{
    struct tensor tensor = *other;
    tensor.name = name;
    tensor.role = role;
    return tensor;
}

static cudaError_t tensors(long long sizes[MAX_SIZES], struct tensor list[MAX_TENSORS], int *count)
{
    const cudaError_t status = attention_problem.tensors(sizes, list, count);
    if (status != cudaSuccess)
        return status;
    list[AT_O].role = list[AT_LSE].role = TENSOR_INPUT;
    list[AT_dO] = like(&list[AT_Q], "dO", TENSOR_INPUT);
    list[AT_dQ] = like(&list[AT_Q], "dQ", TENSOR_OUTPUT);
    list[AT_dK] = like(&list[AT_K], "dK", TENSOR_OUTPUT);
    list[AT_dV] = like(&list[AT_V], "dV", TENSOR_OUTPUT);
    *count = TENSORS;
    return cudaSuccess;
}

size_t attention_backward_workspace(const struct kernel *kernel, const long long sizes[MAX_SIZES])
{
    const struct attention_backward_kernel *row = (const struct attention_backward_kernel *)kernel;
    const struct attention_backward call = attention_backward_of(sizes);
    return row->workspace ? row->workspace(&call) : 0;
}

/* Where a count might overflow its type, all counts are set to the largest value. None is over 2^10
 * for a product, a query or a key. */
static struct cost cost(const struct kernel *kernel, const long long sizes[MAX_SIZES])
{
    const struct attention_backward_kernel *row = (const struct attention_backward_kernel *)kernel;
    const struct attention_backward call = attention_backward_of(sizes);
    const double rows = (double)attention_backward_query_rows(&call), keys = call.seq_kv;
    if (rows == 0.0 || keys == 0.0)
        return (struct cost){0};
    if (rows * keys * call.head_dim > 0x1p52)
        return (struct cost){LLONG_MAX, LLONG_MAX, LLONG_MAX, LLONG_MAX};
    return row->cost(&call);
}

/* -------------------------------------------------------------------------------------------------
 * Inputs: Q, K and V of each kind are the forward problem's.
 */

/*
 * With SPECIAL inputs the scores of whole rows, or of all keys but a few, overflow to -inf. The
 * forward problem's infinite keys would not do: 0 · inf is NaN in dQ. In half precision no score
 * overflows, and those keys have the weight 0.
 */
static void put_special(const struct attention *call, void *const *host)
{
    const size_t cols = (size_t)call->head_dim, keys = (size_t)call->seq_kv;
    const bool overflows = call->type != TENSOR_F16;
    for (size_t row = 0; row < attention_query_rows(call); row++)
        tensor_store(host[AT_Q], call->type, row * cols, overflows ? 0x1p100 : 1.0);
    for (size_t row = 0; row < attention_rows(call->batch, call->kv_heads, call->seq_kv); row++) {
        const size_t head = row / keys % 3, key = row % keys;
        const bool stays = head == 0 ? key + 3 >= keys : head == 1 && key < 2;
        tensor_store(host[AT_K], call->type, row * cols,
                     stays       ? 0.0
                     : overflows ? -0x1p100
                                 : -60000.0);
    }
}

static void inputs(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                   void *const *host)
{
    enum { STREAM_dO = 100 };
    const struct attention call = attention_of(sizes);
    const size_t cols = (size_t)call.head_dim;
    const size_t elements = attention_query_rows(&call) * cols;
    const enum input_kind kind_dO =
        kind == INPUTS_UNIFORM || kind == INPUTS_OUTLIERS ? kind : INPUTS_NORMAL;
    attention_problem.inputs(sizes, kind == INPUTS_SPECIAL ? INPUTS_NORMAL : kind, seed, host);
    for (size_t i = 0; i < elements; i++)
        tensor_store(host[AT_dO], call.type, i,
                     input_element(i / cols, i % cols, cols, kind_dO, seed, STREAM_dO));
    if (kind == INPUTS_SPECIAL)
        put_special(&call, host);
}

/* O and LSE are what a forward pass in double precision leaves, rounded to their types: a few rows
 * at a time. */
static void derive(const long long sizes[MAX_SIZES], void *const *host)
{
    enum { TOGETHER = 64 };
    const struct attention call = attention_of(sizes);
    const size_t cols = (size_t)call.head_dim, rows = attention_query_rows(&call);
    double *memory = malloc(sizeof(double) * TOGETHER * 2 * (cols + 1));
    if (!memory)
        abort(); /* there are not even a few kilobytes left */
    double *O = memory, *LSE = O + TOGETHER * cols, *scale_O = LSE + TOGETHER,
           *scale_LSE = scale_O + TOGETHER * cols;
    for (size_t first = 0; first < rows; first += TOGETHER) {
        size_t row[TOGETHER], count = 0;
        for (; count < TOGETHER && first + count < rows; count++)
            row[count] = first + count;
        const struct row_list list[] = {{row, count}, {row, count}};
        attention_problem.reference(sizes, (const void *const *)host, list,
                                    (double *const[]){O, LSE},
                                    (double *const[]){scale_O, scale_LSE});
        for (size_t i = 0; i < count * cols; i++)
            tensor_store(host[AT_O], call.type, first * cols + i, O[i]);
        for (size_t i = 0; i < count; i++)
            tensor_store(host[AT_LSE], TENSOR_F32, first + i, LSE[i]);
    }
    free(memory);
}

/* -------------------------------------------------------------------------------------------------
 * The reference, one pair of a query and a key at a time. It takes O and LSE as they are. A mistake
 * is the reference with one thing changed.
 */

struct gradients {
    struct attention_backward call;
    bool without_D, without_LSE;   /* dS = P∘dP; P = e^S */
    bool D_unweighed;              /* dS = P∘dP - D */
    bool unscaled_S;               /* S = Q·Kᵀ */
    bool unscaled_dQ, unscaled_dK; /* dQ = dS·K; dK = dSᵀ·Q */
    bool dV_from_S;                /* dV = Sᵀ·dO */
    bool not_causal, from_the_top; /* the mask is missing; it begins at the first query and key */
    bool keys_as_values;           /* dP = dO·Kᵀ */
    size_t first_head;             /* of the group, the only heads that count in dK and dV */
    size_t first, end;             /* the only keys of dQ, and queries of dK and dV, that count */
};

/* A sum, and the sum of the terms' magnitudes. */
struct sum {
    double value, magnitude;
};

/* Four sums run side by side, because a single one would wait for each addition. */
static struct sum dot(const double *a, const double *b, size_t count)
{
    double sum[4] = {0.0}, magnitude[4] = {0.0};
    for (size_t i = 0; i < count; i++) {
        sum[i % 4] += a[i] * b[i];
        magnitude[i % 4] += fabs(a[i] * b[i]);
    }
    const struct sum total = {(sum[0] + sum[1]) + (sum[2] + sum[3]),
                              (magnitude[0] + magnitude[1]) + (magnitude[2] + magnitude[3])};
    return total;
}

struct query {
    double q[MAX_HEAD_DIM], dO[MAX_HEAD_DIM];
    struct sum D;
    double LSE;
    size_t visible, kv_head; /* it sees the first keys of this head, over all batches */
};

struct key {
    double k[MAX_HEAD_DIM], v[MAX_HEAD_DIM];
};

static void begin_query(struct query *query, const struct gradients *g, size_t row)
{
    const struct attention_backward *call = &g->call;
    const size_t d = (size_t)call->head_dim, seq_q = (size_t)call->seq_q;
    const double position =
        (double)(row % seq_q) + (g->from_the_top ? 0 : call->seq_kv - call->seq_q);
    double O[MAX_HEAD_DIM];
    query->kv_head = row / seq_q / (size_t)(call->heads / call->kv_heads);
    query->visible = call->causal && !g->not_causal
                         ? (size_t)fmin(fmax(position + 1.0, 0.0), call->seq_kv)
                         : (size_t)call->seq_kv;
    tensor_elements(query->q, call->Q, call->type, row * d, d);
    tensor_elements(query->dO, call->dO, call->type, row * d, d);
    tensor_elements(O, call->O, call->type, row * d, d);
    query->D = dot(query->dO, O, d);
    query->LSE = call->LSE[row];
}

static void begin_key(struct key *key, const struct gradients *g, size_t row)
{
    const struct attention_backward *call = &g->call;
    const size_t d = (size_t)call->head_dim;
    tensor_elements(key->k, call->K, call->type, row * d, d);
    tensor_elements(key->v, g->keys_as_values ? call->K : call->V, call->type, row * d, d);
}

/* P and dS of a pair, what dV sums in P's place, and the scales of both. */
struct pair {
    double P, dS, scale_P, scale_dS;
};

static struct pair pair_of(const struct gradients *g, const struct query *query,
                           const struct key *key)
{
    const struct attention_backward *call = &g->call;
    const size_t d = (size_t)call->head_dim;
    const double scale = call->scale;
    const struct sum product = dot(query->q, key->k, d), dP = dot(query->dO, key->v, d);
    const double S = product.value * (g->unscaled_S ? 1.0 : scale);
    /* In float such a score is -inf. */
    const bool unseen = query->LSE == -INFINITY || S < -(double)FLT_MAX;
    const double P = unseen ? 0.0 : exp(S - (g->without_LSE ? 0.0 : query->LSE));
    const double D = g->without_D ? 0.0 : query->D.value;
    struct pair pair;
    pair.P = g->dV_from_S ? S : P;
    pair.dS = g->D_unweighed ? P * dP.value - D : P * (dP.value - D);
    pair.scale_P = P * (1.0 + fabs(scale) * product.magnitude + fabs(query->LSE));
    pair.scale_P = unseen ? 0.0 : pair.scale_P;
    pair.scale_dS = pair.scale_P * (dP.magnitude + query->D.magnitude);
    return pair;
}

/* Adds a pair's part of a gradient's row, and of the row's scale. `spread` sums the magnitudes of
 * what P or dS is multiplied by. */
static void add(double *value, double *scale, double *spread, size_t d, double weight,
                double weight_scale, const double *row)
{
    for (size_t c = 0; c < d; c++) {
        value[c] += weight * row[c];
        scale[c] += weight_scale * fabs(row[c]);
        spread[c] += fabs(row[c]);
    }
}

/* Multiplies the sums by a factor. The last term of a scale is for numbers below the type's
 * smallest normal one, where the spacing of results, of P and of dS is fixed. */
static void finish(const struct gradients *g, double *value, double *scale, const double *spread,
                   double factor)
{
    const double smallest_normal = tensor_smallest_normal(g->call.type);
    for (size_t c = 0; c < (size_t)g->call.head_dim; c++) {
        value[c] *= factor;
        scale[c] =
            fabs(factor) * scale[c] + smallest_normal * (1.0 + fmax(fabs(factor), 1.0) * spread[c]);
    }
}

static void clear_rows(double *value, double *scale, double *spread, size_t count)
{
    for (size_t c = 0; c < count; c++)
        value[c] = scale[c] = spread[c] = 0.0;
}

static void row_of_dQ(const struct gradients *g, size_t row, double *dQ, double *scale)
{
    const size_t d = (size_t)g->call.head_dim, keys = (size_t)g->call.seq_kv;
    double spread[MAX_HEAD_DIM];
    struct query query;
    clear_rows(dQ, scale, spread, d);
    begin_query(&query, g, row);
    for (size_t j = g->first; j < query.visible && j < g->end; j++) {
        struct key key;
        begin_key(&key, g, query.kv_head * keys + j);
        const struct pair pair = pair_of(g, &query, &key);
        add(dQ, scale, spread, d, pair.dS, pair.scale_dS, key.k);
    }
    finish(g, dQ, scale, spread, g->unscaled_dQ ? 1.0 : g->call.scale);
}

enum { TOGETHER = 8 };

/* The rows of K and V that are computed together share a head, so that each query is converted to
 * doubles only once. */
static void rows_of_dK(const struct gradients *g, const size_t *row, size_t count, double *dK,
                       double *scale_dK, double *dV, double *scale_dV)
{
    const size_t d = (size_t)g->call.head_dim, keys = (size_t)g->call.seq_kv;
    const size_t group = (size_t)(g->call.heads / g->call.kv_heads);
    const size_t queries = group * (size_t)g->call.seq_q, first_query = row[0] / keys * queries;
    double spread_K[TOGETHER * MAX_HEAD_DIM], spread_V[TOGETHER * MAX_HEAD_DIM];
    struct key key[TOGETHER];
    clear_rows(dK, scale_dK, spread_K, count * d);
    clear_rows(dV, scale_dV, spread_V, count * d);
    for (size_t t = 0; t < count; t++)
        begin_key(&key[t], g, row[t]);
    const size_t skipped = g->first_head * (size_t)g->call.seq_q;
    for (size_t i = skipped > g->first ? skipped : g->first; i < queries && i < g->end; i++) {
        struct query query;
        begin_query(&query, g, first_query + i);
        for (size_t t = 0; t < count; t++) {
            if (row[t] % keys >= query.visible)
                continue;
            const struct pair pair = pair_of(g, &query, &key[t]);
            add(dK + t * d, scale_dK + t * d, spread_K + t * d, d, pair.dS, pair.scale_dS, query.q);
            add(dV + t * d, scale_dV + t * d, spread_V + t * d, d, pair.P, pair.scale_P, query.dO);
        }
    }
    for (size_t t = 0; t < count; t++) {
        finish(g, dK + t * d, scale_dK + t * d, spread_K + t * d,
               g->unscaled_dK ? 1.0 : g->call.scale);
        finish(g, dV + t * d, scale_dV + t * d, spread_V + t * d, 1.0);
    }
}

static struct gradients gradients_of(const long long sizes[MAX_SIZES], const void *const *host)
{
    struct gradients g = {.call = attention_backward_of(sizes), .end = SIZE_MAX};
    g.call.Q = host[AT_Q];
    g.call.K = host[AT_K];
    g.call.V = host[AT_V];
    g.call.O = host[AT_O];
    g.call.LSE = host[AT_LSE];
    g.call.dO = host[AT_dO];
    return g;
}

static void reference(const long long sizes[MAX_SIZES], const void *const *host,
                      const struct row_list *rows, double *const *value, double *const *scale)
{
    const struct gradients g = gradients_of(sizes, host);
    const size_t d = (size_t)g.call.head_dim, keys = (size_t)g.call.seq_kv;
    for (size_t i = 0; i < rows[0].count; i++)
        row_of_dQ(&g, rows[0].row[i], value[0] + i * d, scale[0] + i * d);
    const size_t *row = rows[1].row;
    for (size_t i = 0, end; i < rows[1].count; i = end) {
        for (end = i + 1; end < rows[1].count && end < i + TOGETHER;)
            if (row[end] / keys != row[i] / keys)
                break;
            else
                end++;
        rows_of_dK(&g, row + i, end - i, value[1] + i * d, scale[1] + i * d, value[2] + i * d,
                   scale[2] + i * d);
    }
}

/* Returns how many terms an element of dK sums: all queries of the group. */
static size_t queries_of_group(const struct attention_backward *call)
{
    return call->kv_heads > 0 ? (size_t)(call->heads / call->kv_heads) * (size_t)call->seq_q : 0;
}

static double reference_cost(const long long sizes[MAX_SIZES])
{
    const struct attention_backward call = attention_backward_of(sizes);
    return 8.0 * fmax(call.seq_kv, (double)queries_of_group(&call)) * call.head_dim;
}

/* docs/mathematics.md, section 7.8, derives it. With 16-bit elements P, dS and the result are
 * rounded once. */
static double bound_of(const struct attention_backward *call)
{
    const double terms = fmax(call->seq_kv, (double)queries_of_group(call));
    const double sums = 2.0 * (roundings(call->head_dim) + 4.0) + roundings(terms);
    const bool narrow_elements = call->type != TENSOR_F32;
    return UNIT_ROUNDOFF_F32 * (sums + 16.0) +
           (narrow_elements ? 3.0 * tensor_roundoff(call->type) : 0.0);
}

static double bound(const long long sizes[MAX_SIZES])
{
    const struct attention_backward call = attention_backward_of(sizes);
    return bound_of(&call);
}

/* There are five products, where the forward pass has two. */
static double flops(const long long sizes[MAX_SIZES])
{
    return 2.5 * attention_problem.flops(sizes);
}

static double compulsory_bytes(const long long sizes[MAX_SIZES])
{
    const struct attention_backward call = attention_backward_of(sizes);
    const double rows = (double)attention_backward_query_rows(&call);
    const double keys = (double)attention_backward_key_rows(&call);
    const double row_bytes = call.head_dim * (double)tensor_element_bytes(call.type);
    return 4.0 * (rows + keys) * row_bytes + rows * sizeof(float);
}

cudaError_t attention_backward_run_sizes(const struct kernel *kernel,
                                         const long long sizes[MAX_SIZES], void *const *device,
                                         void *workspace_memory, cudaStream_t stream)
{
    struct attention_backward call = attention_backward_of(sizes);
    call.Q = device[AT_Q];
    call.K = device[AT_K];
    call.V = device[AT_V];
    call.O = device[AT_O];
    call.LSE = device[AT_LSE];
    call.dO = device[AT_dO];
    call.dQ = device[AT_dQ];
    call.dK = device[AT_dK];
    call.dV = device[AT_dV];
    call.workspace = workspace_memory;
    call.stream = stream;
    return attention_backward_run((const struct attention_backward_kernel *)kernel, &call);
}

/* -------------------------------------------------------------------------------------------------
 * Cases. They name no element type, and a kernel runs them with the first that it takes; its
 * head_dim is rounded up to a multiple that it takes, too.
 */

static const struct case_family cases[] = {
    {CASES_QUICK, "--heads 1,2 --seq 32..96/32 --head-dim 32,64", "whole tiles"},
    {CASES_FIRST,
     "--batch 2 --heads 4 --kv-heads 2 --seq-q 33..47 --seq-kv 65..90 --head-dim 40..56/8 "
     "--inputs ascending",
     "ragged tiles, heads that share keys"},
    {CASES_QUICK, "--heads 1 --seq-q 5..9,70..99 --seq-kv 70..99,5..9 --head-dim 24..40/8",
     "more keys than queries, and more queries than keys"},
    {CASES_QUICK, "--heads 3 --seq-q 17..31 --seq-kv 40..70 --head-dim 64 --inputs special",
     "scores of -inf: whole tiles, and all"},
    {CASES_QUICK, "--heads 1 --seq-q 17..31 --seq-kv 40..70 --head-dim 64 --inputs large",
     "exponentials that overflow"},
    {CASES_QUICK,
     "--heads 1,2 --seq-q 40..90,19..31 --seq-kv 40..90,37..60 --head-dim 64,32 --causal",
     "the mask, and its alignment to the bottom right"},
    {CASES_QUICK, "--heads 1 --seq-q 37..60 --seq-kv 19..36 --head-dim 32 --causal",
     "queries that see no key"},
    {CASES_QUICK, "--heads 6 --kv-heads 2 --seq-q 17..31 --seq-kv 17..31 --head-dim 16..24/8",
     "gradients that are sums over a group of heads"},
    {CASES_USUAL,
     "--heads 1 --seq 1,2,3,7,15,16,17,31,32,33,63,64,65,80,100,127,128,129,131 --head-dim 20 "
     "--causal 0,1",
     "sequences below, at and above each tile"},
    {CASES_USUAL,
     "--heads 1 --seq-q 21 --seq-kv 40 --head-dim "
     "1,2,3,4,5,16,31,32,33,36,63,64,65,68,80,95,96,97,100,127,128",
     "both sides of each width that head_dim is padded to"},
    {CASES_USUAL,
     "--heads 1,2,1,2,1,2,1,2,1 --kv-heads 1 --seq-q 1,300,2,129,5,31,97,1,3 "
     "--seq-kv 300,1,257,3,1000,97,31,600,128 --head-dim 16,33,16,33,16,33,16,33,40 "
     "--inputs normal,descending,normal,ascending",
     "queries that are not keys"},
    {CASES_USUAL,
     "--batch 2,3,1 --heads 3,2,4 --kv-heads 3,1,2 --seq-q 18..30,9..20,18..30 "
     "--seq-kv 37..60,40..60,37..60 --head-dim 20..32",
     "batches and heads"},
    {CASES_USUAL, "--heads 1 --seq-q 35..60 --seq-kv 67..90 --head-dim 64 --inputs all",
     "values of each kind"},
    {CASES_USUAL, "--heads 1 --seq-q 67 --seq-kv 65 --head-dim 19 --causal --inputs all",
     "values of each kind, with a mask"},
    {CASES_USUAL, "--heads 1 --seq-q 19 --seq-kv 35 --head-dim 128 --causal 0,1 --inputs all",
     "values of each kind, with the widest heads"},
    {CASES_USUAL, "--heads 3 --seq-q 6,70 --seq-kv 140,40 --head-dim 20 --inputs special",
     "scores of -inf: whole tiles, and all"},
    {CASES_USUAL,
     "--heads 2,2,1,1,1,1 --kv-heads 1 --seq-q 1,2,5,64,65,100 --seq-kv 200,65,129,127,66,193 "
     "--head-dim 64,64,64,128,64,64 --causal --inputs ascending",
     "the mask with fewer queries than keys"},
    {CASES_USUAL,
     "--heads 2,2,1,1,1,1 --kv-heads 1 --seq-q 2,33,65,129,200,193 --seq-kv 1,32,1,64,1,100 "
     "--head-dim 64,64,64,128,64,64 --causal",
     "queries that see no key, and whole tiles of them"},
    {CASES_USUAL, "--heads 1 --seq-q 129,65 --seq-kv 65,129 --head-dim 72 --inputs ascending",
     "the last query and the last key"},
    {CASES_USUAL, "--heads 1 --seq-q 18 --seq-kv 34 --head-dim 30,64,72 --offset 4,8,12",
     "pointers off their alignment"},
    {CASES_USUAL,
     "--heads 2 --kv-heads 1 --seq-q 18..30 --seq-kv 40..60 --head-dim 64 --offset 4 --offset-of "
     "Q,K,V,O,LSE,dO,dQ,dK,dV",
     "one array off its alignment"},
    {CASES_USUAL,
     "--batch 1,0,1,1,0,1 --heads 0,2,1,0,2,1 --kv-heads 0,1,1,0,1,1 --seq 5,5,0,5,5,0 --head-dim "
     "16 --causal 0,0,0,1,1,1",
     "nothing to do"},
    {CASES_USUAL,
     "--batch 2 --heads 2,2,0 --kv-heads 1 --seq 0 --seq-q 0,5,5 --seq-kv 5,0,5 --head-dim 16 "
     "--causal 0,1,0",
     "no queries, or no keys: gradients of 0"},
    {CASES_USUAL,
     "--heads 2,1,1,1 --kv-heads 1 --seq-q 100,9,5,70 --seq-kv 90,33,130,129 --head-dim "
     "64,40,128,128 --causal 0,1,0,1 --type bf16 --inputs normal,ascending",
     "the other element type"},
    {CASES_USUAL,
     "--heads 10,3 --kv-heads 5,3 --seq-q 30,70 --seq-kv 40,67 --head-dim 40,64 --causal 0,1 "
     "--launches 3",
     "what one launch leaves to the next"},
    {CASES_FULL,
     "--heads 1 --seq-q 191,193,255,257 --seq-kv 130,255,257,191 --head-dim 64 --causal 0,1",
     "tiles of 64 and 128, just below and above"},
    {CASES_FULL, "--heads 1 --seq-q 1,33000 --seq-kv 33000,1 --head-dim 8",
     "more tiles than 16 bits of bytes count"},
    {0},
};

static bool fits_kernel(const struct kernel *kernel, long long sizes[MAX_SIZES], size_t *offset)
{
    const struct attention_kernel limits =
        limits_of((const struct attention_backward_kernel *)kernel);
    return attention_problem.fits(&limits.about, sizes, offset);
}

/* -------------------------------------------------------------------------------------------------
 * Mistakes, in any of the three gradients.
 */

/* Writes the row of a gradient, as `g` has it. */
static bool write_row(const struct gradients *g, const struct mistaken_row *r)
{
    double scale[MAX_HEAD_DIM], other[MAX_HEAD_DIM], other_scale[MAX_HEAD_DIM];
    const bool of_dK = r->output == AT_dK - INPUTS;
    if (r->output == 0)
        row_of_dQ(g, r->row, r->value, scale);
    else
        rows_of_dK(g, &r->row, 1, of_dK ? r->value : other, scale, of_dK ? other : r->value,
                   other_scale);
    return true;
}

static size_t terms(const long long *sizes, int output)
{
    const struct attention_backward call = attention_backward_of(sizes);
    return output == 0 ? (size_t)call.seq_kv : queries_of_group(&call);
}

static void partial(const struct mistaken_row *r, size_t first, size_t end)
{
    struct gradients g = gradients_of(r->sizes, r->host);
    g.first = first;
    g.end = end;
    write_row(&g, r);
}

/* Defines a kernel whose `g` differs from the right kernel's, where that is possible. */
#define MISTAKEN(name, possible, change)                                                           \
    static bool name(const struct mistaken_row *r)                                                 \
    {                                                                                              \
        struct gradients g = gradients_of(r->sizes, r->host);                                      \
        const bool is_dQ = r->output == 0;                                                         \
        (void)is_dQ;                                                                               \
        change;                                                                                    \
        return (possible) && write_row(&g, r);                                                     \
    }

MISTAKEN(without_D, true, g.without_D = true)
MISTAKEN(without_LSE, true, g.without_LSE = true)
MISTAKEN(D_unweighed, true, g.D_unweighed = true)
MISTAKEN(unscaled_S, true, g.unscaled_S = true)
MISTAKEN(unscaled_dQ, is_dQ, g.unscaled_dQ = true)
MISTAKEN(unscaled_dK, !is_dQ, g.unscaled_dK = true)
MISTAKEN(dV_from_S, !is_dQ, g.dV_from_S = true)
MISTAKEN(not_causal, g.call.causal, g.not_causal = true)
MISTAKEN(causal_from_the_top, g.call.causal, g.from_the_top = true)
MISTAKEN(keys_as_values, true, g.keys_as_values = true)
MISTAKEN(last_head_alone, !is_dQ && g.call.heads > g.call.kv_heads,
         g.first_head = (size_t)(g.call.heads / g.call.kv_heads) - 1)

static const struct mistake mistake_list[] = {
    {"without-D", "D is not subtracted: dS = P∘(dP - D), with D = rowsum(dO∘O)", without_D, 0},
    {"without-LSE",
     "P is e^S, not divided by the row's sum: P = e^(S - LSE), with the LSE of the forward pass",
     without_LSE, 0},
    {"D-unweighed", "D is subtracted from P∘dP, not from dP: dS = P∘(dP - D)", D_unweighed, 0},
    {"not-scaled", "the scores are not multiplied by the scale, 1 / sqrt(head_dim)", unscaled_S, 0},
    {"dQ-not-scaled", "dQ is not multiplied by the scale: dQ = scale · dS·K", unscaled_dQ, 0},
    {"dK-not-scaled", "dK is not multiplied by the scale: dK = scale · dSᵀ·Q", unscaled_dK, 0},
    {"dV-from-S", "dV is Sᵀ·dO: it sums dO with the weights P, not with the scores", dV_from_S, 0},
    {"not-causal", "the causal mask is not applied: queries see keys that come after them",
     not_causal, 0},
    {"causal-top-left",
     "the causal mask begins at the first query and key; it must end with the last ones: query i "
     "sees key j when j <= i + seq_kv - seq_q",
     causal_from_the_top, 0},
    {"one-head-of-the-group",
     "only the last query head of each group is in dK and dV: heads that share a key add to its "
     "gradients, they do not overwrite them",
     last_head_alone, 0},
    {"V-is-K", "K is read where V should be: dP = dO·Vᵀ", keys_as_values, 0},
    {0},
};

static const struct mistakes mistakes = {.list = mistake_list,
                                         .outputs = TENSORS - INPUTS,
                                         .terms = terms,
                                         .term = {"keys", "queries", "queries"},
                                         .partial = partial,
                                         .exponentials = true};

const struct problem attention_backward_problem = {
    .name = "attention_backward",
    .sizes = attention_sizes,
    .row_bytes = sizeof(struct attention_backward_kernel),
    .narrow = narrow,
    .print_limits = print_limits,
    .tensors = tensors,
    .workspace = attention_backward_workspace,
    .cost = cost,
    .inputs = inputs,
    .derive = derive,
    .reference = reference,
    .reference_cost = reference_cost,
    .bound = bound,
    .flops = flops,
    .compulsory_bytes = compulsory_bytes,
    .run = attention_backward_run_sizes,
    .mistakes = &mistakes,
    .cases = cases,
    .fits = fits_kernel,
};
