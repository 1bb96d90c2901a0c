#include "attention.h"

#include "harness/cases.h"
#include "harness/explain.h"
#include "harness/refusal.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

size_t attention_rows(int batch, int heads, int seq)
{
    if (batch < 0 || heads < 0 || seq <= 0)
        return 0;
    const size_t sequences = (size_t)batch * (size_t)heads;
    return sequences > SIZE_MAX / (size_t)seq ? SIZE_MAX : sequences * (size_t)seq;
}

size_t attention_query_rows(const struct attention *call)
{
    return attention_rows(call->batch, call->heads, call->seq_q);
}

/* Returns the keys of all sequences, as long as they can be, whether or not they lie in pages. */
static size_t sequence_rows(const struct attention *call)
{
    return attention_rows(call->batch, call->kv_heads, call->seq_kv);
}

/* Returns the rows of K and of V. */
static size_t key_rows(const struct attention *call)
{
    return call->page_size ? (size_t)call->pool_pages * call->kv_heads * call->page_size
                           : sequence_rows(call);
}

/* Returns how many pages the table has for a sequence. */
static size_t pages_of_sequence(const struct attention *call)
{
    const size_t page_size = (size_t)call->page_size;
    return page_size ? ((size_t)call->seq_kv + page_size - 1) / page_size : 0;
}

/* Kernels use an int to number the rows of Q, and of K, over all batches and heads. Persistent
 * blocks add their number to the last tile's. */
static cudaError_t require_rows(const char *names, int batch, int heads, int seq)
{
    const double rows = (double)batch * heads * seq;
    if (rows > MAX_EXTENT)
        return refuse(cudaErrorInvalidValue, "%s is %.0f; it must be at most %d", names, rows,
                      MAX_EXTENT);
    return cudaSuccess;
}

static cudaError_t check_pages(const struct attention *call)
{
    const int page_size = call->page_size;
    if (page_size == 0 && call->pages == NULL)
        return cudaSuccess;
    if (page_size < 16 || page_size > 256 || (page_size & (page_size - 1)) != 0)
        return refuse(cudaErrorInvalidValue,
                      "page_size is %d; it must be a power of two from 16 to 256", page_size);
    const cudaError_t status = require_size("pool_pages", call->pool_pages);
    return status != cudaSuccess ? status
                                 : require_rows("pool_pages * kv_heads * page_size",
                                                call->pool_pages, call->kv_heads, page_size);
}

cudaError_t attention_check_shape(const struct attention *call)
{
    cudaError_t status;
    if ((status = require_size("batch", call->batch)) != cudaSuccess ||
        (status = require_size("heads", call->heads)) != cudaSuccess ||
        (status = require_size("kv_heads", call->kv_heads)) != cudaSuccess ||
        (status = require_size("seq_q", call->seq_q)) != cudaSuccess ||
        (status = require_size("seq_kv", call->seq_kv)) != cudaSuccess)
        return status;
    if (call->heads > 0 && (call->kv_heads == 0 || call->heads % call->kv_heads != 0))
        return refuse(cudaErrorInvalidValue, "kv_heads is %d; it must divide heads, which is %d",
                      call->kv_heads, call->heads);
    if ((status = require_rows("batch * heads * seq_q", call->batch, call->heads, call->seq_q)) !=
        cudaSuccess)
        return status;
    status = require_rows("batch * kv_heads * seq_kv", call->batch, call->kv_heads, call->seq_kv);
    return status != cudaSuccess ? status : check_pages(call);
}

static const float LOG2_E = 1.4426950408889634f;

static unsigned types_of(const struct attention_kernel *row)
{
    return row->types ? row->types : 1u << TENSOR_F32;
}

static bool takes_lengths(const struct attention_kernel *row)
{
    return row->variants || row->lengths;
}

static int multiple_of(const struct attention_kernel *row)
{
    return row->head_dim_multiple ? row->head_dim_multiple : 1;
}

cudaError_t attention_check_limits(const struct attention_kernel *row, const struct attention *call)
{
    const unsigned type = (unsigned)call->type;
    if (type >= TENSOR_TYPES || !(types_of(row) >> type & 1))
        return refuse(cudaErrorInvalidValue, "type is %s; this kernel does not take it",
                      type < TENSOR_TYPES ? tensor_type_names[type] : "unknown");
    if (call->head_dim < 1 || call->head_dim > row->max_head_dim)
        return refuse(cudaErrorInvalidValue, "head_dim is %d; this kernel takes 1 .. %d",
                      call->head_dim, row->max_head_dim);
    if (call->head_dim % multiple_of(row) != 0)
        return refuse(cudaErrorInvalidValue,
                      "head_dim is %d; this kernel takes multiples of %d up to %d", call->head_dim,
                      row->head_dim_multiple, row->max_head_dim);
    if (call->causal && !row->causal)
        return refuse(cudaErrorInvalidValue, "causal is asked for; this kernel has no causal mask");
    if ((call->window != 0 || call->soft_cap != 0.0f || call->alibi) && !row->variants)
        return refuse(cudaErrorInvalidValue, "this kernel takes no window, soft cap or ALiBi");
    if (call->lengths != NULL && !takes_lengths(row))
        return refuse(cudaErrorInvalidValue, "lengths are given; this kernel takes none");
    if (call->pages != NULL && !row->paged)
        return refuse(cudaErrorInvalidValue, "pages are given; this kernel takes none");
    if (call->window < 0 || (call->window > 0 && !call->causal))
        return refuse(cudaErrorInvalidValue,
                      "window is %d; it must be at least 0, and 0 without a causal mask",
                      call->window);
    if (!(call->soft_cap >= 0.0f) || !isfinite(call->soft_cap * LOG2_E))
        return refuse(cudaErrorInvalidValue, "soft_cap is %g; it must be finite and at least 0",
                      (double)call->soft_cap);
    /* Kernels whose exponentials have base 2 multiply the scale by log2 e. */
    if (!isfinite(call->scale * LOG2_E))
        return refuse(cudaErrorInvalidValue, "scale is %g; scale * log2(e) must be finite",
                      (double)call->scale);
    if (row->positive_scale && call->scale <= 0.0f)
        return refuse(cudaErrorInvalidValue, "scale is %g; this kernel takes positive scales",
                      (double)call->scale);
    return cudaSuccess;
}

/* Checks the pointers of a valid shape that has something to compute. */
static cudaError_t check_arrays(const struct attention_kernel *row, const struct attention *call)
{
    const size_t element = tensor_element_bytes(call->type), workspace_alignment = 256;
    const size_t alignment = row->alignment ? (size_t)row->alignment : element;
    const size_t rows = attention_query_rows(call), row_bytes = (size_t)call->head_dim * element;
    const size_t bytes_K = key_rows(call) * row_bytes;
    const struct {
        const char *name;
        const void *pointer;
        size_t bytes, alignment;
    } array[] = {
        {"Q", call->Q, rows * row_bytes, alignment},
        {"K", call->K, bytes_K, alignment},
        {"V", call->V, bytes_K, alignment},
        {"lengths", call->lengths, call->lengths ? (size_t)call->batch * sizeof(int) : 0,
         sizeof(int)},
        {"pages", call->pages, (size_t)call->batch * pages_of_sequence(call) * sizeof(int),
         sizeof(int)},
        {"O", call->O, rows * row_bytes, alignment},
        {"LSE", call->LSE, call->LSE ? rows * sizeof *call->LSE : 0, sizeof *call->LSE},
        {"workspace", call->workspace, row->workspace ? row->workspace(call) : 0,
         workspace_alignment},
    };
    enum { FIRST_WRITTEN = 5, ARRAYS = sizeof array / sizeof array[0] };

    cudaError_t status = cudaSuccess;
    for (int a = 0; a < ARRAYS && status == cudaSuccess; a++)
        status =
            require_pointer(array[a].name, array[a].pointer, array[a].bytes, array[a].alignment);
    for (int a = FIRST_WRITTEN; a < ARRAYS; a++)
        for (int b = 0; b < a && status == cudaSuccess; b++)
            status = require_disjoint(array[a].name, array[a].pointer, array[a].bytes,
                                      array[b].name, array[b].pointer, array[b].bytes);
    return status;
}

cudaError_t attention_run(const struct attention_kernel *row, const struct attention *call)
{
    if (call == NULL)
        return refuse(cudaErrorInvalidValue, "the call is null");
    cudaError_t status;
    if ((status = require_device(&row->about)) != cudaSuccess ||
        (status = attention_check_shape(call)) != cudaSuccess ||
        (status = attention_check_limits(row, call)) != cudaSuccess ||
        attention_query_rows(call) == 0 ||
        (row->shared && (status = require_shared(row->shared(call))) != cudaSuccess) ||
        (status = check_arrays(row, call)) != cudaSuccess)
        return status;
    launch_begins();
    return launch_ends(row->launch(call));
}

/* -------------------------------------------------------------------------------------------------
 * The problem as the harness sees it. Only tensors() sees a kv_heads, seq_q or seq_kv that still
 * means "as ...".
 */

enum { MAX_HEAD_DIM = 256 };

const struct size_option attention_sizes[] = {
    [ATTENTION_BATCH] = {"batch", "sequences", 0, MAX_EXTENT, 1, 4, .flag = false},
    [ATTENTION_HEADS] = {"heads", "query heads", 0, MAX_EXTENT, 2, 32, .flag = false},
    [ATTENTION_KV_HEADS] = {"kv-heads", "key/value heads, a divisor of heads; 0: as heads",
                            .maximum = MAX_EXTENT},
    [ATTENTION_SEQ] = {"seq", "queries and keys", 0, MAX_EXTENT, 128, 1024, .flag = false},
    [ATTENTION_SEQ_Q] = {"seq-q", "queries; 0: as seq", .maximum = MAX_EXTENT},
    [ATTENTION_SEQ_KV] = {"seq-kv", "keys; 0: as seq", .maximum = MAX_EXTENT},
    [ATTENTION_HEAD_DIM] = {"head-dim", "elements of a query, key or value", 1, MAX_HEAD_DIM, 64,
                            64, .flag = false},
    [ATTENTION_CAUSAL] = {"causal", "mask the keys that come after a query", .flag = true},
    [ATTENTION_TYPE] = {"type", "element type of Q, K, V and O", .choices = tensor_type_names},
    [ATTENTION_WINDOW] = {"window", "keys that a causal query sees; 0: all", .maximum = MAX_EXTENT},
    [ATTENTION_SOFT_CAP] = {"soft-cap", "bound of a score's magnitude; 0: none",
                            .maximum = MAX_EXTENT},
    [ATTENTION_ALIBI] = {"alibi", "scores fall with the distance, by each head's slope",
                         .flag = true},
    [ATTENTION_LENGTHS] = {"lengths", "sequences have fewer keys than seq-kv, drawn from the seed",
                           .flag = true},
    [ATTENTION_PAGE] = {"page", "keys of a page, of pages all over a pool; 0: K, V are contiguous",
                        .maximum = 256},
    {.name = NULL},
};

/* A step offers what any of its kernels takes. Its default type is the first that they take. */
static void narrow(const void *table, struct size_option *sizes)
{
    int max_head_dim = 1;
    unsigned types = 0;
    bool causal = false, variants = false, lengths = false, paged = false;
    for (const struct attention_kernel *row = table; row->about.name; row++) {
        max_head_dim = row->max_head_dim > max_head_dim ? row->max_head_dim : max_head_dim;
        types |= types_of(row);
        causal = causal || row->causal;
        variants = variants || row->variants;
        lengths = lengths || takes_lengths(row);
        paged = paged || row->paged;
    }
    sizes[ATTENTION_HEAD_DIM].maximum = max_head_dim;
    sizes[ATTENTION_CAUSAL].hidden = !causal;
    for (int size = ATTENTION_WINDOW; size <= ATTENTION_ALIBI; size++)
        sizes[size].hidden = !variants;
    sizes[ATTENTION_LENGTHS].hidden = !lengths;
    sizes[ATTENTION_PAGE].hidden = !paged;

    struct size_option *type = &sizes[ATTENTION_TYPE];
    while (types && !(types >> type->device & 1))
        type->device++;
    type->watched = type->device;
    type->allowed = types;
    type->hidden = (types & (types - 1)) == 0; /* there is only one type */
}

static void print_limits(const struct kernel *kernel)
{
    const struct attention_kernel *row = (const struct attention_kernel *)kernel;
    printf(", \"types\": [");
    for (int type = 0, printed = 0; type < TENSOR_TYPES; type++)
        if (types_of(row) >> type & 1)
            printf("%s\"%s\"", printed++ ? ", " : "", tensor_type_names[type]);
    printf("], \"max_head_dim\": %d, \"head_dim_multiple\": %d, \"causal\": %s, "
           "\"variants\": %s, \"lengths\": %s, \"paged\": %s, \"positive_scale\": %s",
           row->max_head_dim, multiple_of(row), row->causal ? "true" : "false",
           row->variants ? "true" : "false", takes_lengths(row) ? "true" : "false",
           row->paged ? "true" : "false", row->positive_scale ? "true" : "false");
}

/* Returns how many pages the pool has: one for each entry of the table, and some for nobody. */
static int pool_of(const long long sizes[MAX_SIZES])
{
    enum { SPARE = 3 };
    const long long page = sizes[ATTENTION_PAGE];
    if (page == 0)
        return 0;
    const double entries =
        (double)sizes[ATTENTION_BATCH] * (double)((sizes[ATTENTION_SEQ_KV] + page - 1) / page);
    return (int)fmin(entries + SPARE, INT_MAX);
}

struct attention attention_of(const long long sizes[MAX_SIZES])
{
    return (struct attention){
        .batch = (int)sizes[ATTENTION_BATCH],
        .heads = (int)sizes[ATTENTION_HEADS],
        .kv_heads = (int)sizes[ATTENTION_KV_HEADS],
        .seq_q = (int)sizes[ATTENTION_SEQ_Q],
        .seq_kv = (int)sizes[ATTENTION_SEQ_KV],
        .head_dim = (int)sizes[ATTENTION_HEAD_DIM],
        .causal = sizes[ATTENTION_CAUSAL] != 0,
        .alibi = sizes[ATTENTION_ALIBI] != 0,
        .window = (int)sizes[ATTENTION_WINDOW],
        .soft_cap = (float)sizes[ATTENTION_SOFT_CAP],
        .page_size = (int)sizes[ATTENTION_PAGE],
        .pool_pages = pool_of(sizes),
        .scale = 1.0f / sqrtf((float)sizes[ATTENTION_HEAD_DIM]),
        .type = (enum tensor_type)sizes[ATTENTION_TYPE],
    };
}

/* Returns how many keys a sequence has. kv_head counts the heads of all sequences. */
static size_t keys_of(const struct attention *call, size_t kv_head)
{
    return (size_t)(call->lengths ? call->lengths[kv_head / (size_t)call->kv_heads] : call->seq_kv);
}

/* Returns the row of K, and of V, where key j of a head lies. */
static size_t key_row(const struct attention *call, size_t kv_head, size_t j)
{
    const size_t kv_heads = (size_t)call->kv_heads, page_size = (size_t)call->page_size;
    if (call->pages == NULL)
        return kv_head * (size_t)call->seq_kv + j;
    const int *of_sequence = call->pages + kv_head / kv_heads * pages_of_sequence(call);
    const size_t head_of_page = (size_t)of_sequence[j / page_size] * kv_heads + kv_head % kv_heads;
    return head_of_page * page_size + j % page_size;
}

/* Each of the last `corner` queries sees one key fewer than the query after it; earlier queries see
 * none. */
static double causal_pairs(double queries, double keys)
{
    const double corner = fmin(queries, keys);
    return corner * (keys - corner) + corner * (corner + 1.0) / 2.0;
}

/* Counts, in one head, the pairs of a query and a key that it sees, in sequences of full length. */
static double visible_pairs(const struct attention *call)
{
    const double queries = call->seq_q, keys = call->seq_kv;
    if (!call->causal)
        return queries * keys;
    const double before_window =
        call->window > 0 ? causal_pairs(queries, fmax(keys - call->window, 0.0)) : 0.0;
    return causal_pairs(queries, keys) - before_window;
}

/* Q, K and V are followed by lengths, where there are any, pages, where there are any, and the
 * outputs. */
enum { LENGTHS = 3 };

static int place_of_pages(const long long sizes[MAX_SIZES])
{
    return LENGTHS + (sizes[ATTENTION_LENGTHS] != 0);
}

/* Returns the call with lengths and pages from these arrays, of the host or of the device. */
static struct attention call_with_tables(const long long sizes[MAX_SIZES], const void *const *array)
{
    struct attention call = attention_of(sizes);
    call.lengths = sizes[ATTENTION_LENGTHS] ? array[LENGTHS] : NULL;
    call.pages = sizes[ATTENTION_PAGE] ? array[place_of_pages(sizes)] : NULL;
    return call;
}

static cudaError_t tensors(long long sizes[MAX_SIZES], struct tensor list[MAX_TENSORS], int *count)
{
    if (sizes[ATTENTION_KV_HEADS] == 0)
        sizes[ATTENTION_KV_HEADS] = sizes[ATTENTION_HEADS];
    if (sizes[ATTENTION_SEQ_Q] == 0)
        sizes[ATTENTION_SEQ_Q] = sizes[ATTENTION_SEQ];
    if (sizes[ATTENTION_SEQ_KV] == 0)
        sizes[ATTENTION_SEQ_KV] = sizes[ATTENTION_SEQ];

    const struct attention call = attention_of(sizes);
    const cudaError_t status = attention_check_shape(&call);
    if (status != cudaSuccess)
        return status;

    const enum tensor_type type = call.type;
    const size_t rows = attention_query_rows(&call), head_dim = (size_t)call.head_dim;
    const size_t kv_rows = key_rows(&call);
    const size_t batch = (size_t)call.batch, heads = (size_t)call.heads;
    const size_t kv_heads = (size_t)call.kv_heads;
    const size_t seq_q = (size_t)call.seq_q, columns = pages_of_sequence(&call);
    /* The second and third extents of K and V hold a sequence's heads, or a page's. */
    const size_t blocks = call.page_size ? (size_t)call.pool_pages : batch;
    const size_t keys = (size_t)(call.page_size ? call.page_size : call.seq_kv);
    list[0] =
        (struct tensor){"Q", TENSOR_INPUT, type, rows, head_dim, {batch, heads, seq_q, head_dim}};
    list[1] = (struct tensor){"K",     TENSOR_INPUT, type,
                              kv_rows, head_dim,     {blocks, kv_heads, keys, head_dim}};
    list[2] = (struct tensor){"V",     TENSOR_INPUT, type,
                              kv_rows, head_dim,     {blocks, kv_heads, keys, head_dim}};
    *count = LENGTHS;
    if (sizes[ATTENTION_LENGTHS])
        list[(*count)++] = (struct tensor){"lengths", TENSOR_INPUT, TENSOR_I32, batch, 1, {batch}};
    if (sizes[ATTENTION_PAGE])
        list[(*count)++] =
            (struct tensor){"pages", TENSOR_INPUT, TENSOR_I32, batch, columns, {batch, columns}};
    list[(*count)++] =
        (struct tensor){"O", TENSOR_OUTPUT, type, rows, head_dim, {batch, heads, seq_q, head_dim}};
    list[(*count)++] =
        (struct tensor){"LSE", TENSOR_OUTPUT, TENSOR_F32, rows, 1, {batch, heads, seq_q}};
    return cudaSuccess;
}

size_t attention_workspace(const struct kernel *kernel, const long long sizes[MAX_SIZES])
{
    const struct attention_kernel *row = (const struct attention_kernel *)kernel;
    struct attention call = attention_of(sizes);
    static const int some; /* a kernel may ask whether there are lengths, not which */
    call.lengths = sizes[ATTENTION_LENGTHS] ? &some : NULL;
    return row->workspace ? row->workspace(&call) : 0;
}

/* An empty O costs nothing. Where a count might overflow its type, all counts are set to the
 * largest value. None is over 2^10 for a product, a query or a key. */
static struct cost cost(const struct kernel *kernel, const long long sizes[MAX_SIZES])
{
    const struct attention_kernel *row = (const struct attention_kernel *)kernel;
    const struct attention call = attention_of(sizes);
    const double rows = (double)attention_query_rows(&call), keys = call.seq_kv;
    if (rows == 0.0)
        return (struct cost){0};
    if ((rows + 1.0) * (keys + 1.0) * call.head_dim > 0x1p52)
        return (struct cost){LLONG_MAX, LLONG_MAX, LLONG_MAX, LLONG_MAX};
    return row->cost(row, &call);
}

/* -------------------------------------------------------------------------------------------------
 * Inputs. Here the kind describes the scores; V stays as random as the kind allows, so that a
 * probability multiplied with the wrong row of V shows.
 */

enum {
    STREAM_Q,
    STREAM_K,
    STREAM_V,
    STREAM_Q_REACH,
    STREAM_K_REACH,
    STREAM_SIGN,
    STREAM_LENGTH,
    STREAM_PAGE
};

/* A query of LARGE has scores of one sign and 104 to 200 in magnitude with LARGE keys: e^-104 is 0
 * in float. */
static double element_Q(const struct attention *call, enum input_kind kind, uint64_t seed,
                        size_t row, size_t col)
{
    const size_t cols = (size_t)call->head_dim, index = row * cols + col;
    switch (kind) {
    case INPUTS_LARGE: {
        const double largest = sqrt(200.0 / (call->scale * call->head_dim));
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

/* ASCENDING and DESCENDING keys give scores that run from 0 to 20 or back. With CONSTANT all keys
 * of a head tie. */
static double element_K(const struct attention *call, enum input_kind kind, uint64_t seed,
                        size_t row, size_t col)
{
    const size_t cols = (size_t)call->head_dim, index = row * cols + col;
    const size_t head = row / (size_t)call->seq_kv, key = row % (size_t)call->seq_kv;
    switch (kind) {
    case INPUTS_LARGE: {
        const double largest = sqrt(200.0 / (call->scale * call->head_dim));
        const double reach = 0.8 + 0.2 * input_uniform(seed, STREAM_K_REACH, row);
        return largest * reach * (0.9 + 0.1 * input_uniform(seed, STREAM_K, index));
    }
    case INPUTS_ASCENDING:
    case INPUTS_DESCENDING: {
        const double along = call->seq_kv > 1 ? (double)key / (call->seq_kv - 1) : 0.0;
        const double score = 20.0 * (kind == INPUTS_ASCENDING ? along : 1.0 - along);
        return score / (call->scale * call->head_dim) + 0.1 * input_normal(seed, STREAM_K, index);
    }
    case INPUTS_CONSTANT:
        return input_normal(seed, STREAM_K, head * cols + col);
    default:
        return input_element(row, col, cols, kind, seed, STREAM_K);
    }
}

static double element_V(const struct attention *call, enum input_kind kind, uint64_t seed,
                        size_t row, size_t col)
{
    const enum input_kind kind_V =
        kind == INPUTS_UNIFORM || kind == INPUTS_OUTLIERS ? kind : INPUTS_NORMAL;
    return input_element(row, col, (size_t)call->head_dim, kind_V, seed, STREAM_V);
}

/*
 * With SPECIAL inputs a score is -inf, or overflows to it, for every key but the last few (the
 * first kv head), for every key but the first two (the second), or for all (the third): the whole
 * of a tile, and more than one. Q's first feature is positive, and K's is what makes the score.
 */
static void put_special(const struct attention *call, void *const *host)
{
    const size_t cols = (size_t)call->head_dim, keys = (size_t)call->seq_kv;
    const bool overflows = call->type == TENSOR_F32 && call->seq_q % 2 == 1;
    for (size_t row = 0; row < attention_query_rows(call); row++)
        tensor_store(host[0], call->type, row * cols,
                     overflows ? 0x1p100
                               : 0.5 + fabs(tensor_element(host[0], call->type, row * cols)));
    for (size_t i = 0; i < sequence_rows(call); i++) {
        const size_t head = i / keys % 3, key = i % keys, row = key_row(call, i / keys, key);
        const bool stays = head == 0 ? key + 3 >= keys : head == 1 && key < 2;
        const double finite = overflows ? 0.0 : tensor_element(host[1], call->type, row * cols);
        tensor_store(host[1], call->type, row * cols,
                     stays       ? finite
                     : overflows ? -0x1p100
                                 : -INFINITY);
    }
}

/* The first sequence is as long as can be. */
static void put_lengths(const struct attention *call, uint64_t seed, int *lengths)
{
    for (int batch = 0; batch < call->batch; batch++) {
        const uint64_t drawn =
            input_bits(seed, STREAM_LENGTH, (uint64_t)batch) % ((uint64_t)call->seq_kv + 1);
        lengths[batch] = batch == 0 ? call->seq_kv : (int)drawn;
    }
}

/* Each sequence's pages lie all over the pool, but for the spare ones at its end: there a kernel
 * that takes the pool for contiguous keys does not look, so its mistake has values. */
static void put_pages(const struct attention *call, uint64_t seed, int *pages)
{
    const size_t entries = (size_t)call->batch * pages_of_sequence(call);
    for (size_t i = 0; i < entries; i++) {
        const size_t other = input_bits(seed, STREAM_PAGE, i) % (i + 1);
        pages[i] = pages[other];
        pages[other] = (int)i;
    }
}

/* What lies past a sequence's end is infinite, and no page follows its last one. */
static void put_ends(const struct attention *call, void *const *host, int *pages)
{
    const size_t cols = (size_t)call->head_dim, keys = (size_t)call->seq_kv;
    const size_t columns = pages_of_sequence(call);
    for (size_t i = 0; i < sequence_rows(call); i++)
        for (size_t col = 0; col < cols && i % keys >= keys_of(call, i / keys); col++)
            for (int tensor = 1; tensor < LENGTHS; tensor++)
                tensor_store(host[tensor], call->type,
                             key_row(call, i / keys, i % keys) * cols + col, INFINITY);
    for (size_t i = 0; i < (size_t)call->batch * columns; i++)
        if (i % columns * (size_t)call->page_size >=
            keys_of(call, i / columns * (size_t)call->kv_heads))
            pages[i] = i % 2 ? -1 : INT_MAX;
}

static void inputs(const long long sizes[MAX_SIZES], enum input_kind kind, uint64_t seed,
                   void *const *host)
{
    const struct attention call = call_with_tables(sizes, (const void *const *)host);
    const size_t cols = (size_t)call.head_dim, keys = (size_t)call.seq_kv;
    const size_t elements_Q = attention_query_rows(&call) * cols;
    int *const pages = call.pages ? host[place_of_pages(sizes)] : NULL;

    if (call.lengths)
        put_lengths(&call, seed, host[LENGTHS]);
    if (pages) {
        put_pages(&call, seed, pages);
        for (size_t i = 0; i < key_rows(&call) * cols; i++) {
            tensor_store(host[1], call.type, i, NAN);
            tensor_store(host[2], call.type, i, NAN);
        }
    }
    for (size_t i = 0; i < elements_Q; i++)
        tensor_store(host[0], call.type, i, element_Q(&call, kind, seed, i / cols, i % cols));
    for (size_t i = 0; i < sequence_rows(&call) * cols; i++) {
        const size_t row = i / cols, at = key_row(&call, row / keys, row % keys) * cols + i % cols;
        tensor_store(host[1], call.type, at, element_K(&call, kind, seed, row, i % cols));
        const double v = element_V(&call, kind, seed, row, i % cols);
        tensor_store(host[2], call.type, at,
                     kind == INPUTS_SUBNORMAL ? v * 0.25 * tensor_smallest_normal(call.type) : v);
    }
    if (kind == INPUTS_SPECIAL)
        put_special(&call, host);
    if (call.lengths)
        put_ends(&call, host, pages);
}

/* -------------------------------------------------------------------------------------------------
 * The reference, one query and one key at a time, as the formula of the online softmax has it.
 */

struct query {
    double q[MAX_HEAD_DIM], norm;   /* norm is ||q|| */
    size_t kv_head;                 /* over all sequences */
    size_t keys;                    /* of its sequence */
    size_t unseen, visible;         /* it sees keys unseen .. visible - 1 of that */
    double position, slope;         /* its place among the keys, and ALiBi's slope */
    double m, l, reach;             /* reach is the largest of a visible key */
    double *O, *weight;             /* sums of P·v and P·|v| */
    double magnitude[MAX_HEAD_DIM]; /* sum of |v|; it multiplies small probabilities */
};

/* Four sums run side by side, because a single one would wait for each addition. */
static double dot(const double *a, const double *b, size_t count)
{
    double sum[4] = {0.0};
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (size_t lane = 0; lane < 4; lane++)
            sum[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        sum[0] += a[i] * b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void begin(struct query *query, const struct attention *call, const void *Q, size_t row)
{
    const size_t seq_q = (size_t)call->seq_q, heads = (size_t)call->heads;
    const size_t head = row / seq_q, d = (size_t)call->head_dim,
                 group = heads / (size_t)call->kv_heads;
    query->kv_head = head / group;
    query->keys = keys_of(call, query->kv_head);
    const double keys = (double)query->keys;
    query->position = (double)(row % seq_q) + keys - call->seq_q;
    query->visible = (size_t)(call->causal ? fmin(fmax(query->position + 1.0, 0.0), keys) : keys);
    const size_t window = (size_t)call->window;
    query->unseen = window > 0 && query->visible > window ? query->visible - window : 0;
    query->slope = call->alibi ? exp2(-8.0 * (double)(head % heads + 1) / (double)heads) : 0.0;
    query->m = -DBL_MAX;
    query->l = query->reach = 0.0;

    tensor_elements(query->q, Q, call->type, row * d, d);
    query->norm = sqrt(dot(query->q, query->q, d));
    for (size_t c = 0; c < d; c++)
        query->O[c] = query->weight[c] = query->magnitude[c] = 0.0;
}

static double bias_of(const struct query *query, size_t j)
{
    return -query->slope * fabs(query->position - (double)j);
}

static double score_of(const struct query *query, const struct attention *call, const double *key,
                       size_t j)
{
    const double s = call->scale * dot(query->q, key, (size_t)call->head_dim), cap = call->soft_cap;
    return (cap > 0.0 ? cap * tanh(s / cap) : s) + bias_of(query, j);
}

/* Makes s the maximum of the scores, and shrinks what was summed so far to match. */
static void raise_maximum(struct query *query, size_t d, double s, bool rescales_l, bool rescales_O)
{
    const double factor = exp(query->m - s), factor_O = rescales_O ? factor : 1.0;
    query->l *= rescales_l ? factor : 1.0;
    for (size_t c = 0; c < d; c++) {
        query->O[c] *= factor_O;
        query->weight[c] *= factor_O;
    }
    query->m = s;
}

static void weigh(struct query *query, size_t d, double p, const double *v)
{
    query->l += p;
    for (size_t c = 0; c < d; c++) {
        query->O[c] += p * v[c];
        query->weight[c] += p * fabs(v[c]);
        query->magnitude[c] += fabs(v[c]);
    }
}

/* Adds key j. Its reach, |scale|·||q||·||k||, bounds its scaled score and the rounding errors of
 * that; a soft cap and a bias add their own. */
static void add(struct query *query, const struct attention *call, size_t j, const double *key,
                double norm, const double *v)
{
    const size_t d = (size_t)call->head_dim;
    double s = score_of(query, call, key, j);
    if (s < -(double)FLT_MAX) /* in float it is -inf, and has no weight */
        s = -INFINITY;
    else
        query->reach = fmax(query->reach, fabs((double)call->scale) * query->norm * norm +
                                              call->soft_cap - bias_of(query, j));
    if (s > query->m)
        raise_maximum(query, d, s, true, true);
    weigh(query, d, exp(s - query->m), v);
}

/* This bound is for a kernel that computes with floats throughout. */
static double float_bound(const struct attention *call)
{
    const double sums = 2.0 * (roundings(call->head_dim) + 4.0) + 2.0 * roundings(call->seq_kv);
    return UNIT_ROUNDOFF_F32 * (sums + 16.0);
}

/* With 16-bit elements P and O are rounded once each. What small probabilities lose is counted once
 * more. */
static double bound_of(const struct attention *call)
{
    const bool narrow_elements = call->type != TENSOR_F32;
    return float_bound(call) + (narrow_elements ? 3.0 * tensor_roundoff(call->type) : 0.0);
}

static double bound(const long long sizes[MAX_SIZES])
{
    const struct attention call = attention_of(sizes);
    return bound_of(&call);
}

/*
 * O's scale begins as the sum of P·|v| and is multiplied by 1 + A, where A is the largest reach of
 * a visible key: a rounding error of a score is a relative error of its exponential. The last term
 * is for numbers below the type's smallest normal one: there the spacing of results, and of the
 * probabilities that V is multiplied by, is fixed. LSE is a float whatever the elements are, so its
 * scale is multiplied by what keeps a wider bound equally strict.
 */
static void finish(struct query *query, const struct attention *call, double *LSE, double *scale)
{
    const bool sees = query->visible > 0 && query->l != 0.0;
    const double normalise = sees ? 1.0 / query->l : 0.0, A = query->reach;
    const double smallest_normal = tensor_smallest_normal(call->type);
    for (size_t c = 0; c < (size_t)call->head_dim; c++) {
        query->O[c] *= normalise;
        query->weight[c] = query->weight[c] * normalise * (1.0 + A) +
                           smallest_normal * (1.0 + query->magnitude[c] * normalise);
    }
    *LSE = sees ? query->m + log(query->l) : -INFINITY;
    *scale = sees ? 1.0 + A + fabs(*LSE) : 1.0;
    *scale *= float_bound(call) / bound_of(call);
}

/* Computes `count` rows of O and LSE, and their scales. The rows of one kv head are computed
 * together, so that each key and value is converted to doubles only once. */
static void reference_rows(const struct attention *call, const void *const *host, const size_t *row,
                           size_t count, double *O, double *O_scale, double *LSE, double *LSE_scale)
{
    enum { TOGETHER = 8 };
    const size_t d = (size_t)call->head_dim;
    struct query query[TOGETHER];
    for (size_t first = 0, end; first < count; first = end) {
        size_t visible = 0;
        for (end = first; end < count && end < first + TOGETHER; end++) {
            struct query *next = &query[end - first];
            next->O = O + end * d;
            next->weight = O_scale + end * d;
            begin(next, call, host[0], row[end]);
            if (next->kv_head != query->kv_head)
                break;
            visible = next->visible > visible ? next->visible : visible;
        }
        for (size_t j = 0; j < visible; j++) {
            double key[MAX_HEAD_DIM], v[MAX_HEAD_DIM];
            const size_t at = key_row(call, query->kv_head, j) * d;
            tensor_elements(key, host[1], call->type, at, d);
            tensor_elements(v, host[2], call->type, at, d);
            const double norm = sqrt(dot(key, key, d));
            for (size_t i = 0; i < end - first; i++)
                if (j >= query[i].unseen && j < query[i].visible)
                    add(&query[i], call, j, key, norm, v);
        }
        for (size_t i = first; i < end; i++)
            finish(&query[i - first], call, LSE + i, LSE_scale + i);
    }
}

static void reference(const long long sizes[MAX_SIZES], const void *const *host,
                      const struct row_list *rows, double *const *value, double *const *scale)
{
    const struct attention call = call_with_tables(sizes, host);
    reference_rows(&call, host, rows[0].row, rows[0].count, value[0], scale[0], value[1], scale[1]);
}

static double reference_cost(const long long sizes[MAX_SIZES])
{
    const struct attention call = attention_of(sizes);
    return 5.0 * call.seq_kv * call.head_dim;
}

static double flops(const long long sizes[MAX_SIZES])
{
    const struct attention call = attention_of(sizes);
    return 4.0 * visible_pairs(&call) * call.head_dim * call.batch * call.heads;
}

/* A window hides keys from all queries. Lengths are not known here: the first sequence, whose
 * length is seq_kv, counts alone. */
static double compulsory_bytes(const long long sizes[MAX_SIZES])
{
    const struct attention call = attention_of(sizes);
    const double rows = (double)attention_query_rows(&call);
    const double row_bytes = call.head_dim * (double)tensor_element_bytes(call.type);
    const double by_first = fmax(call.seq_kv - call.seq_q + 1.0, 0.0);
    const double hidden = call.window > 0 ? fmax(by_first - call.window, 0.0) : 0.0;
    const double keys = (double)call.batch * call.kv_heads * (call.seq_kv - hidden);
    const double known = sizes[ATTENTION_LENGTHS] ? 1.0 / call.batch : 1.0;
    return known * (rows + 2.0 * keys) * row_bytes + rows * (row_bytes + sizeof(float));
}

cudaError_t attention_run_sizes(const struct kernel *kernel, const long long sizes[MAX_SIZES],
                                void *const *device, void *workspace_memory, cudaStream_t stream)
{
    struct attention call = call_with_tables(sizes, (const void *const *)device);
    call.Q = device[0];
    call.K = device[1];
    call.V = device[2];
    const int outputs = place_of_pages(sizes) + (sizes[ATTENTION_PAGE] != 0);
    call.O = device[outputs];
    call.LSE = device[outputs + 1];
    call.workspace = workspace_memory;
    call.stream = stream;
    return attention_run((const struct attention_kernel *)kernel, &call);
}

/* -------------------------------------------------------------------------------------------------
 * Cases. They name no element type, and a kernel runs them with the first that it takes; its
 * head_dim is rounded up to a multiple that it takes, too.
 */

static const struct case_family cases[] = {
    {CASES_QUICK, "--heads 1,2 --seq 32..96/32 --head-dim 32,64", "whole tiles"},
    {CASES_QUICK, "--heads 2 --seq-q 19..31 --seq-kv 37..60 --head-dim 24..40/8 --null LSE",
     "an LSE that is null"},
    {CASES_FIRST,
     "--batch 2 --heads 2 --kv-heads 1 --seq-q 33..47 --seq-kv 65..90 --head-dim 40..56/8 "
     "--inputs ascending",
     "ragged tiles, shared keys, a maximum that keeps rising"},
    {CASES_QUICK, "--heads 1 --seq-q 5..9 --seq-kv 70..200 --head-dim 128",
     "more keys than queries"},
    {CASES_QUICK, "--heads 3 --seq-q 17..31 --seq-kv 60..90 --head-dim 64 --inputs special",
     "scores of -inf: whole tiles, and all"},
    {CASES_QUICK, "--heads 1 --seq-q 17..31 --seq-kv 60..90 --head-dim 64 --inputs large",
     "exponentials that overflow"},
    {CASES_QUICK,
     "--heads 1,2 --seq-q 40..90,19..31 --seq-kv 40..120,37..60 --head-dim 64,32 --causal",
     "the mask, and its alignment to the bottom right"},
    {CASES_QUICK, "--heads 1 --seq-q 37..60 --seq-kv 19..36 --head-dim 32 --causal",
     "queries that see no key"},
    {CASES_QUICK,
     "--heads 2 --seq-q 40..70,90,5..9 --seq-kv 70..90,90,300 --head-dim 32 --causal --window "
     "9..20,1,40",
     "a sliding window"},
    {CASES_QUICK, "--heads 2 --seq-q 40..70 --seq-kv 70..90 --head-dim 64 --soft-cap 2..5",
     "a soft cap"},
    {CASES_QUICK,
     "--heads 3,2 --seq-q 40..70 --seq-kv 70..90,20..35 --head-dim 32 --alibi --causal 0,1",
     "ALiBi"},
    {CASES_QUICK,
     "--batch 4 --heads 2 --kv-heads 1 --seq-q 40..70,5 --seq-kv 70..90 --head-dim 40 --lengths "
     "--causal 0,1",
     "sequences of different lengths"},
    {CASES_QUICK,
     "--batch 3 --heads 4 --kv-heads 2 --seq-q 1,3,2 --seq-kv 60..90,130..170,64 --head-dim "
     "40,64,128 --page 16,32,64 --causal 0,1,1 --lengths 0,0,1",
     "keys in pages"},
    {CASES_USUAL,
     "--batch 2,5,3,1 --heads 4,6,5,2 --kv-heads 2,2,5,1 --seq-q 1,2,5,16 --seq-kv "
     "256,300,513,1100 --head-dim 64,128,72,8 --page 16,32,128,256 --causal 0,1 --lengths 0,1,1,1 "
     "--inputs ascending,special,normal,large",
     "pages that end before, with and after a tile of keys"},
    {CASES_USUAL,
     "--batch 3,2 --heads 4 --kv-heads 2 --seq-q 70..100,130 --seq-kv 131..200,90 --head-dim "
     "40,128 "
     "--lengths --causal --window 33..60,64 --alibi --soft-cap 8,20 --inputs ascending,special",
     "window, cap, bias and lengths at once"},
    {CASES_USUAL,
     "--heads 1 --seq-q 300,257 --seq-kv 300,389 --head-dim 64 --causal --window "
     "31,32,33,64,65,128",
     "windows below, at and above each tile"},
    {CASES_USUAL,
     "--heads 1 --seq 1,2,3,7,15,16,17,31,32,33,63,64,65,80,100,127,128,129,131 "
     "--head-dim 20 --causal 0",
     "sequences below, at and above each tile"},
    {CASES_USUAL,
     "--heads 1 --seq 1,2,3,7,15,16,17,31,32,33,63,64,65,80,100,127,128,129,131 "
     "--head-dim 20 --causal --inputs ascending",
     "sequences below, at and above each tile, with a mask"},
    {CASES_USUAL,
     "--heads 1 --seq-q 21 --seq-kv 70 --head-dim "
     "1,2,3,4,5,16,31,32,33,36,63,64,65,68,80,95,96,97,100,127,128",
     "both sides of each width that head_dim is padded to"},
    {CASES_USUAL,
     "--heads 1,2,1,2,1,2,1,2,1 --kv-heads 1 --seq-q 1,300,2,129,5,31,97,1,3 "
     "--seq-kv 300,1,257,3,1000,97,31,600,128 --head-dim 16,33,16,33,16,33,16,33,40 "
     "--inputs normal,descending,normal,ascending",
     "queries that are not keys"},
    {CASES_USUAL,
     "--batch 2,3,1 --heads 3,2,4 --kv-heads 3,1,2 --seq-q 18..30,9..20,18..30 "
     "--seq-kv 37..60,70..90,37..60 --head-dim 20..32",
     "batches and heads"},
    {CASES_USUAL, "--heads 1 --seq-q 35..60 --seq-kv 131..150 --head-dim 64 --inputs all",
     "values of each kind"},
    {CASES_USUAL, "--heads 1 --seq-q 17 --seq-kv 66 --head-dim 19 --inputs all",
     "values of each kind"},
    {CASES_USUAL, "--heads 1 --seq-q 67 --seq-kv 131 --head-dim 64 --causal --inputs all",
     "values of each kind, with a mask"},
    {CASES_USUAL, "--heads 1 --seq-q 1..4 --seq-kv 700..900 --head-dim 40 --inputs all",
     "one query, values of each kind"},
    {CASES_USUAL, "--heads 3 --seq-q 6,7 --seq-kv 300,300 --head-dim 20 --inputs special",
     "scores of -inf: whole tiles, runs of keys, and all"},
    {CASES_USUAL,
     "--heads 1 --seq-q 261,257,133,130,19 --seq-kv 67,130,131,69,257 "
     "--head-dim 64,32,96,128,64 --inputs ascending",
     "full tiles and a tail, both ways"},
    {CASES_USUAL,
     "--heads 2,4,2,1 --kv-heads 2,2,2,1 --seq-q 40,70,300,300 "
     "--seq-kv 40,161,140,200 --head-dim 40,40,100,100 "
     "--inputs normal,descending,ascending,normal",
     "loops that turn three times while heads and chunks change"},
    {CASES_USUAL,
     "--heads 1 --seq-q 130 --seq-kv 1025 --head-dim 72 --inputs ascending --causal 0,1",
     "the last key of many"},
    {CASES_USUAL,
     "--heads 2,2,1,1,1,1 --kv-heads 1 --seq-q 1,2,5,64,65,100 --seq-kv 300,65,129,127,66,293 "
     "--head-dim 64,64,64,128,64,64 --causal --inputs ascending",
     "the mask with fewer queries than keys"},
    {CASES_USUAL,
     "--heads 2,2,1,1,1,1 --kv-heads 1 --seq-q 2,33,65,129,300,293 --seq-kv 1,32,1,64,1,100 "
     "--head-dim 64,64,64,128,64,64 --causal",
     "queries that see no key, and whole tiles of them"},
    {CASES_USUAL,
     "--heads 1 --seq-q 389,261,385,261,257 --seq-kv 261,389,300,261,270 "
     "--head-dim 64,64,64,128,128 --causal 1,1,0,1,0 --inputs ascending",
     "large tiles: two full ones and a tail, both ways"},
    {CASES_USUAL,
     "--heads 1 --seq-q 64 --seq-kv 1030,650,1025,513 --head-dim 64,128,64,128 --causal 0,1,1,0 "
     "--inputs ascending",
     "stages that are filled three times"},
    {CASES_USUAL, "--batch 1,2 --heads 2 --seq 40,70 --head-dim 40,104 --causal 0,1",
     "a padded head_dim, and what lies past it"},
    {CASES_USUAL, "--heads 2,1,6 --kv-heads 2,1,3 --seq-q 37 --seq-kv 45 --head-dim 64 --causal",
     "batches and heads, with a mask"},
    {CASES_USUAL, "--heads 1 --seq-q 131 --seq-kv 513 --head-dim 64 --causal --inputs ascending",
     "a mask in three blocks of keys"},
    {CASES_USUAL,
     "--heads 1 --seq-q 19 --seq-kv 70 --head-dim 128 --causal 0 --inputs "
     "large,ascending,descending,outliers,special",
     "values of each kind"},
    {CASES_USUAL, "--heads 1 --seq-q 18 --seq-kv 34 --head-dim 30,64,72 --offset 4,8,12",
     "pointers off their alignment"},
    {CASES_USUAL,
     "--heads 2 --kv-heads 1 --seq-q 18..30 --seq-kv 70..90 --head-dim 64 --offset 4 --offset-of "
     "Q,K,V,O,LSE",
     "one array off its alignment"},
    {CASES_USUAL, "--heads 1 --seq-q 37,1,5 --seq-kv 70,530,40 --head-dim 24,64,128 --null LSE",
     "an LSE that is null"},
    {CASES_USUAL,
     "--batch 1,0,1,1,0,1 --heads 0,2,1,0,2,1 --kv-heads 0,1,1,0,1,1 --seq 5,5,0,5,5,0 --head-dim "
     "16 --causal 0,0,0,1,1,1",
     "nothing to do"},
    {CASES_USUAL,
     "--heads 2,1,1,1 --kv-heads 1 --seq-q 200,9,5,70 --seq-kv 140,33,300,257 --head-dim "
     "64,40,128,128 --causal 0,1,0,1 --type bf16 --inputs normal,ascending",
     "the other element type"},
    {CASES_USUAL,
     "--heads 1 --seq-q 67..80 --seq-kv 131..150 --head-dim 64 --causal --type bf16 --inputs "
     "ascending,outliers,special",
     "the other element type"},
    {CASES_USUAL,
     "--batch 2,1 --heads 3,12 --kv-heads 3,4 --seq-q 70..80,30..40 --seq-kv 90..99,50..60 "
     "--head-dim 40,64 --launches 3 --causal 0",
     "what one launch leaves to the next, with more tiles than multiprocessors"},
    {CASES_USUAL,
     "--heads 10 --kv-heads 5 --seq-q 130 --seq-kv 140 --head-dim 64 --causal "
     "--launches 3",
     "what one launch leaves to the next, with more tiles than multiprocessors"},
    {CASES_FULL, "--heads 1 --seq-q 66000 --seq-kv 1 --head-dim 8",
     "more queries than 16 bits count"},
    {CASES_FULL,
     "--heads 1 --seq-q 35 --seq-kv 255,256,257,383,385 --head-dim 36,64,72,100,128 "
     "--inputs ascending",
     "tiles of 64 and 128 keys, just below and above"},
    {CASES_FULL, "--heads 1 --seq-q 191,193,255,257 --seq-kv 70 --head-dim 64 --causal 0,1",
     "tiles of 64, 128 and 192 queries, just below and above"},
    {0},
};

static bool fits(const struct kernel *kernel, long long sizes[MAX_SIZES], size_t *offset)
{
    const struct attention_kernel *row = (const struct attention_kernel *)kernel;
    const unsigned types = types_of(row);
    const int multiple = multiple_of(row);
    if (sizes[ATTENTION_TYPE] == TENSOR_F32)
        while (!(types >> sizes[ATTENTION_TYPE] & 1))
            sizes[ATTENTION_TYPE]++;
    const long long dim = (sizes[ATTENTION_HEAD_DIM] + multiple - 1) / multiple * multiple;
    sizes[ATTENTION_HEAD_DIM] = dim < row->max_head_dim ? dim : row->max_head_dim;
    /* More queries than 16 bits count take half a minute where every access is watched. With a mask
     * only the last ones see a key. */
    if (sizes[ATTENTION_SEQ_Q] > UINT16_MAX && row->causal)
        sizes[ATTENTION_CAUSAL] = 1;
    const bool varied =
        sizes[ATTENTION_WINDOW] || sizes[ATTENTION_SOFT_CAP] || sizes[ATTENTION_ALIBI];
    return types >> sizes[ATTENTION_TYPE] & 1 && (row->causal || !sizes[ATTENTION_CAUSAL]) &&
           (row->variants || !varied) && (takes_lengths(row) || !sizes[ATTENTION_LENGTHS]) &&
           (row->paged || !sizes[ATTENTION_PAGE]) &&
           (row->alignment == 0 || *offset % (size_t)row->alignment == 0);
}

/* -------------------------------------------------------------------------------------------------
 * Mistakes: the reference with one thing changed.
 */

enum { MAX_MISTAKEN_TILE = 64 };

/* This describes what a mistaken kernel does with a query. */
struct attending {
    struct attention call;
    struct query query;
    const void *V;
    enum { IN_PAGES, AS_IF_CONTIGUOUS, KEYS_BEFORE_HEADS } layout; /* where it looks for a key */
    double padding;            /* extra keys, with score 0, that it sees */
    size_t tile;               /* it raises the maximum only every `tile` keys */
    bool keeps_l, keeps_O;     /* it does not rescale l or O when the maximum grows */
    bool undivided, unweighed; /* it omits the division; it uses scores as probabilities */
    /* It keeps the mean of the values, and divides by the l of each tile: what the tile adds to O,
     * or all of O. */
    bool divides_new, divides_all;
    double weight[MAX_HEAD_DIM];
};

/* Sets `a` to what the right kernel does with this query. */
static void attending(struct attending *a, const struct mistaken_row *r)
{
    *a =
        (struct attending){.call = call_with_tables(r->sizes, r->host), .V = r->host[2], .tile = 1};
    a->query.O = r->value;
    a->query.weight = a->weight;
    begin(&a->query, &a->call, r->host[0], r->row);
}

/* Lets it see from this key on, what a window hides excepted. */
static void from_key(struct attending *a, size_t first)
{
    a->query.unseen = a->query.unseen > first ? a->query.unseen : first;
}

/* Returns the row of K where it looks for key j. */
static size_t looks_at(const struct attending *a, size_t j)
{
    const size_t kv_head = a->query.kv_head, kv_heads = (size_t)a->call.kv_heads;
    const size_t page_size = (size_t)a->call.page_size;
    if (a->layout == AS_IF_CONTIGUOUS)
        return kv_head * (size_t)a->call.seq_kv + j;
    const size_t row = key_row(&a->call, kv_head, j);
    if (a->layout == IN_PAGES)
        return row;
    return (row / page_size / kv_heads * page_size + j % page_size) * kv_heads + kv_head % kv_heads;
}

static bool attend(struct attending *a, const struct mistaken_row *r)
{
    struct query *query = &a->query;
    const size_t d = (size_t)a->call.head_dim;
    double key[MAX_HEAD_DIM], score[MAX_MISTAKEN_TILE], before[MAX_HEAD_DIM] = {0.0};
    if (a->padding > 0.0) {
        query->m = 0.0;
        query->l = a->padding;
    }
    for (size_t first = query->unseen, end; first < query->visible; first = end) {
        double m = query->m;
        for (end = first; end < query->visible && end < first + a->tile; end++) {
            tensor_elements(key, r->host[1], a->call.type, looks_at(a, end) * d, d);
            score[end - first] = score_of(query, &a->call, key, end);
            m = fmax(m, score[end - first]);
        }
        if (m > query->m)
            raise_maximum(query, d, m, !a->keeps_l, !a->keeps_O);
        for (size_t c = 0; c < d && a->divides_new; c++) {
            before[c] = query->O[c];
            query->O[c] = 0.0;
        }
        for (size_t j = first; j < end; j++) {
            tensor_elements(key, a->V, a->call.type, looks_at(a, j) * d, d);
            weigh(query, d, a->unweighed ? score[j - first] : exp(score[j - first] - m), key);
        }
        for (size_t c = 0; c < d && (a->divides_new || a->divides_all); c++)
            query->O[c] = query->O[c] / query->l + before[c];
    }
    for (size_t c = 0; c < d && !a->undivided; c++)
        query->O[c] = query->l > 0.0 ? query->O[c] / query->l : 0.0;
    return true;
}

static size_t terms(const long long *sizes, int output)
{
    (void)output;
    return (size_t)sizes[ATTENTION_SEQ_KV];
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void partial(const struct mistaken_row *r, size_t first, size_t end)
{
    struct attending a;
    attending(&a, r);
    from_key(&a, first);
    a.query.visible = smaller(a.query.visible, end);
    attend(&a, r);
}

/* Defines a kernel whose `a` differs from the right kernel's, where that is possible. */
#define ATTENDING(name, possible, change)                                                          \
    static bool name(const struct mistaken_row *r)                                                 \
    {                                                                                              \
        struct attending a;                                                                        \
        attending(&a, r);                                                                          \
        const size_t keys = a.query.keys;                                                          \
        (void)keys;                                                                                \
        change;                                                                                    \
        return (possible) && attend(&a, r);                                                        \
    }

/* Returns the kv head for heads that take turns with them, instead of neighbours that share one. */
static size_t alternate(const struct attention *call, size_t row)
{
    const size_t head = row / (size_t)call->seq_q, heads = (size_t)call->heads,
                 kv_heads = (size_t)call->kv_heads;
    return head / heads * kv_heads + head % heads % kv_heads;
}

/* Counts the keys from the end to the next multiple of the tile; with a tile of 1 it counts one
 * key. */
static double past_the_end(size_t keys, size_t tile)
{
    return tile == 1 ? 1.0 : (double)((keys + tile - 1) / tile * tile - keys);
}

ATTENDING(unscaled, true, a.call.scale = 1.0f)
ATTENDING(scaled_twice, true, a.call.scale *= a.call.scale)
ATTENDING(base_2, true, a.call.scale *= (float)M_LN2)
ATTENDING(undivided, true, a.undivided = true)
ATTENDING(without_softmax, true, a.undivided = a.unweighed = a.keeps_O = true)
ATTENDING(alternate_kv_head, a.call.kv_heads < a.call.heads,
          a.query.kv_head = alternate(&a.call, r->row))
ATTENDING(first_kv_head, true, a.query.kv_head = 0)
ATTENDING(not_causal, a.call.causal, a.query.visible = keys)
ATTENDING(causal_from_the_top, a.call.causal,
          a.query.visible = smaller(r->row % (size_t)a.call.seq_q + 1, keys))
ATTENDING(causal_without_itself, a.call.causal, a.query.visible -= a.query.visible > 0)
ATTENDING(causal_one_too_many, a.call.causal, a.query.visible += a.query.visible < keys)
ATTENDING(not_windowed, a.call.window > 0, a.query.unseen = 0)
ATTENDING(window_too_short, a.query.unseen > 0, a.query.unseen += 1)
ATTENDING(window_too_long, a.query.unseen > 0, a.query.unseen -= a.query.unseen > 0)
ATTENDING(not_capped, r->sizes[ATTENTION_SOFT_CAP] > 0, a.call.soft_cap = 0.0f)
ATTENDING(not_biased, a.call.alibi, a.query.slope = 0.0)
ATTENDING(first_slope_is_1, a.call.alibi, a.query.slope *= exp2(8.0 / a.call.heads))
ATTENDING(full_length, r->sizes[ATTENTION_LENGTHS] > 0 && a.call.pages == NULL,
          (a.call.lengths = NULL, begin(&a.query, &a.call, r->host[0], r->row)))
ATTENDING(contiguous, a.call.pages != NULL, a.layout = AS_IF_CONTIGUOUS)
ATTENDING(keys_before_heads, a.call.pages != NULL && a.call.kv_heads > 1,
          a.layout = KEYS_BEFORE_HEADS)
ATTENDING(padded, a.padding > 0.0, a.padding = past_the_end(keys, r->tile))
ATTENDING(keys_as_values, true, a.V = r->host[1])
ATTENDING(sum_not_rescaled, true, (a.tile = r->tile, a.keeps_l = true))
ATTENDING(output_not_rescaled, true, (a.tile = r->tile, a.keeps_O = true))
ATTENDING(nothing_rescaled, true, (a.tile = r->tile, a.keeps_l = a.keeps_O = true))
ATTENDING(mean_as_sum, true, (a.tile = r->tile, a.undivided = a.divides_new = true))
ATTENDING(sum_divided_often, true, (a.tile = r->tile, a.undivided = a.divides_all = true))

/* These rows of a table are the same mistake with tiles of different sizes. */
#define TILES(name, says, compute)                                                                 \
    {name, says, compute, 16}, {name, says, compute, 32},                                          \
    {                                                                                              \
        name, says, compute, 64                                                                    \
    }

#define NOT_RESCALED(name, what, compute)                                                          \
    {name, what " is not multiplied by e^(m_old - m_new) when the maximum grows", compute, 1},     \
        TILES(name, what " is not multiplied by e^(m_old - m_new) when the maximum grows",         \
              compute)

static const char mean_rescaled[] =
    "O is divided by l at each tile but rescaled by e^(m_old - m_new) alone: a mean so far needs "
    "the factor l_old / l_new as well, and only a sum that is divided once, at the end, does not";

static const char divided_often[] =
    "the output so far is divided by l at every tile: divide once, after the last, or multiply "
    "it by l_old first";

static const char not_masked[] =
    "keys past the end count, with a score of 0: the empty places of the last tile of keys must "
    "get a score of -inf";

static const struct mistake mistake_list[] = {
    {"not-divided", "O is not divided by l, the sum of the row's exponentials", undivided, 0},
    {"not-scaled", "the scores are not multiplied by the scale, 1 / sqrt(head_dim)", unscaled, 0},
    {"scaled-twice", "the scores are multiplied by the scale twice", scaled_twice, 0},
    {"base-2",
     "the exponentials have base 2: exp2f(x) is e^x only when x has been multiplied by log2(e)",
     base_2, 0},
    {"no-softmax", "V is multiplied with the scores themselves, not with their softmax",
     without_softmax, 0},
    {"kv-head",
     "heads read the wrong head of K and V: neighbouring heads share one, head h reads h / (heads "
     "/ kv_heads)",
     alternate_kv_head, 0},
    {"first-kv-head", "every head reads K and V of the first head: their offset is missing",
     first_kv_head, 0},
    {"not-causal", "the causal mask is not applied: queries see keys that come after them",
     not_causal, 0},
    {"causal-top-left",
     "the causal mask begins at the first query and key; it must end with the last ones: query i "
     "sees key j when j <= i + seq_kv - seq_q",
     causal_from_the_top, 0},
    {"causal-too-few", "the causal mask hides one key too many: a query sees its own position",
     causal_without_itself, 0},
    {"causal-too-many", "the causal mask shows one key too many", causal_one_too_many, 0},
    {"not-windowed", "the window hides nothing: queries see keys that came too long ago",
     not_windowed, 0},
    {"window-too-short",
     "the window hides one key too many: a query and the keys before it are `window` keys",
     window_too_short, 0},
    {"window-too-long",
     "the window shows one key too many: a query and the keys before it are `window` keys",
     window_too_long, 0},
    {"not-capped", "the scores are not capped: cap · tanh(s / cap)", not_capped, 0},
    {"not-biased", "ALiBi is missing: a score falls by slope · distance", not_biased, 0},
    {"first-slope-is-1",
     "ALiBi's slope is that of the head before: head h has 2^(-8·(h + 1) / heads), counted from 0",
     first_slope_is_1, 0},
    {"full-length",
     "lengths are not heeded: a sequence has lengths[batch] keys, and the mask ends with the last "
     "of them",
     full_length, 0},
    {"not-paged",
     "pages are not heeded: key j of a sequence lies in page pages[batch][j / page_size] of the "
     "pool",
     contiguous, 0},
    {"page-layout",
     "keys of a page are read as if its heads were neighbours: the pool is [pages, kv_heads, "
     "page_size, head_dim]",
     keys_before_heads, 0},
    {"keys-not-masked", "one key past the end counts, with a score of 0", padded, 1},
    TILES("keys-not-masked", not_masked, padded),
    {"keys-not-masked", not_masked, padded, 128},
    {"V-is-K", "K is read where V should be", keys_as_values, 0},
    NOT_RESCALED("sum-not-rescaled", "the sum so far, l,", sum_not_rescaled),
    NOT_RESCALED("output-not-rescaled", "the output so far", output_not_rescaled),
    NOT_RESCALED("not-rescaled", "what was summed so far, l and O,", nothing_rescaled),
    {"mean-rescaled", mean_rescaled, mean_as_sum, 1},
    TILES("mean-rescaled", mean_rescaled, mean_as_sum),
    {"divided-often", divided_often, sum_divided_often, 1},
    TILES("divided-often", divided_often, sum_divided_often),
    {0},
};

static const struct mistakes mistakes = {.list = mistake_list,
                                         .terms = terms,
                                         .term = {"keys"},
                                         .partial = partial,
                                         .exponentials = true};

const struct problem attention_problem = {
    .name = "attention",
    .sizes = attention_sizes,
    .row_bytes = sizeof(struct attention_kernel),
    .narrow = narrow,
    .print_limits = print_limits,
    .tensors = tensors,
    .workspace = attention_workspace,
    .cost = cost,
    .inputs = inputs,
    .reference = reference,
    .reference_cost = reference_cost,
    .bound = bound,
    .flops = flops,
    .compulsory_bytes = compulsory_bytes,
    .run = attention_run_sizes,
    .mistakes = &mistakes,
    .cases = cases,
    .fits = fits,
};
