/* The mistakes of each problem that show in its values: explain.h says what they are for. Rows are
 * computed as the references compute them, but for the mistake. */
#include "attention.h"
#include "harness/explain.h"
#include "matmul.h"
#include "softmax.h"

#include <math.h>

static size_t extent(const struct mistaken_row *r, int size)
{
    return (size_t)r->sizes[size];
}

/* ---- Matrix product ---- */

/* A row of C from terms begin .. end - 1, with strides of one's own: A[row * a_row + k * a_k] and
 * B[k * b_k + col * b_col]. False where that leaves the arrays. */
static bool product(const struct mistaken_row *r, size_t begin, size_t end, size_t a_row,
                    size_t a_k, size_t b_k, size_t b_col)
{
    const size_t M = extent(r, MATMUL_M), N = extent(r, MATMUL_N), K = extent(r, MATMUL_K);
    const float *A = r->host[0], *B = r->host[1];
    if (K == 0 || (M - 1) * a_row + (K - 1) * a_k >= M * K ||
        (K - 1) * b_k + (N - 1) * b_col >= K * N)
        return false;
    for (size_t col = 0; col < N; col++) {
        r->value[col] = 0.0;
        for (size_t k = begin; k < end; k++)
            r->value[col] += (double)A[r->row * a_row + k * a_k] * B[k * b_k + col * b_col];
    }
    return true;
}

static size_t matmul_terms(const long long *sizes)
{
    return (size_t)sizes[MATMUL_K];
}

static void matmul_partial(const struct mistaken_row *r, size_t begin, size_t end)
{
    product(r, begin, end, extent(r, MATMUL_K), 1, extent(r, MATMUL_N), 1);
}

/* A and B with other strides than their own, which are a_row, a_k = K, 1 and b_k, b_col = N, 1. */
#define STRIDES(name, a_row, a_k, b_k, b_col)                                                      \
    static bool name(const struct mistaken_row *r)                                                 \
    {                                                                                              \
        const size_t M = extent(r, MATMUL_M), N = extent(r, MATMUL_N), K = extent(r, MATMUL_K);    \
        (void)M, (void)N;                                                                          \
        return product(r, 0, K, a_row, a_k, b_k, b_col);                                           \
    }
STRIDES(B_transposed, K, 1, 1, K)
STRIDES(A_transposed, 1, M, N, 1)
STRIDES(both_transposed, 1, M, 1, K)
STRIDES(A_strided_by_N, N, 1, N, 1)
STRIDES(B_strided_by_K, K, 1, K, 1)

static const struct mistake matmul_list[] = {
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
    {0},
};

const struct mistakes matmul_mistakes = {
    .list = matmul_list, .terms = matmul_terms, .term = "products", .partial = matmul_partial};

/* ---- Softmax ---- */

static const float *softmax_row(const struct mistaken_row *r)
{
    return (const float *)r->host[0] + r->row * extent(r, SOFTMAX_COLS);
}

struct statistics {
    double m, l;
};

/* The maximum, and the sum of the exponentials, of elements begin, begin + step, ... below end, in
 * powers of e^log_base. */
static struct statistics statistics_of(const float *input, size_t begin, size_t end, size_t step,
                                       double log_base)
{
    struct statistics s = {-INFINITY, 0.0};
    for (size_t i = begin; i < end; i += step)
        s.m = fmax(s.m, input[i]);
    for (size_t i = begin; i < end; i += step)
        s.l += exp((input[i] - s.m) * log_base);
    return s;
}

/* With the maximum and the sum of columns begin .. end - 1. */
static bool normalise(const struct mistaken_row *r, size_t begin, size_t end, double log_base)
{
    const float *input = softmax_row(r);
    const struct statistics s = statistics_of(input, begin, end, 1, log_base);
    for (size_t col = 0; col < extent(r, SOFTMAX_COLS); col++)
        r->value[col] = exp((input[col] - s.m) * log_base) / s.l;
    return true;
}

static size_t softmax_terms(const long long *sizes)
{
    return (size_t)sizes[SOFTMAX_COLS];
}

static void softmax_partial(const struct mistaken_row *r, size_t begin, size_t end)
{
    normalise(r, begin, end, 1.0);
}

static bool softmax_base_2(const struct mistaken_row *r)
{
    return normalise(r, 0, extent(r, SOFTMAX_COLS), M_LN2);
}

static bool softmax_undivided(const struct mistaken_row *r)
{
    const size_t cols = extent(r, SOFTMAX_COLS);
    const float *input = softmax_row(r);
    const double m = statistics_of(input, 0, cols, 1, 1.0).m;
    for (size_t col = 0; col < cols; col++)
        r->value[col] = exp(input[col] - m);
    return true;
}

/* The logarithm of the right result. */
static bool softmax_logarithm(const struct mistaken_row *r)
{
    const size_t cols = extent(r, SOFTMAX_COLS);
    normalise(r, 0, cols, 1.0);
    for (size_t col = 0; col < cols; col++)
        r->value[col] = log(r->value[col]);
    return true;
}

/* Every column sums to 1, not every row. */
static bool softmax_of_columns(const struct mistaken_row *r)
{
    const size_t rows = extent(r, SOFTMAX_ROWS), cols = extent(r, SOFTMAX_COLS);
    const float *input = r->host[0];
    for (size_t col = 0; col < cols; col++) {
        const struct statistics s = statistics_of(input, col, rows * cols, cols, 1.0);
        r->value[col] = exp(input[r->row * cols + col] - s.m) / s.l;
    }
    return rows > 1;
}

/* Lane i of `tile` takes columns i, i + tile, ..., and knows no others. */
static bool softmax_of_lanes(const struct mistaken_row *r)
{
    const size_t cols = extent(r, SOFTMAX_COLS);
    const float *input = softmax_row(r);
    for (size_t lane = 0; lane < r->tile && lane < cols; lane++) {
        const struct statistics s = statistics_of(input, lane, cols, r->tile, 1.0);
        for (size_t col = lane; col < cols; col += r->tile)
            r->value[col] = exp(input[col] - s.m) / s.l;
    }
    return true;
}

static const struct mistake softmax_list[] = {
    {"not-divided",
     "each result is e^(x - m) without the division by the row's sum: divide by l when it is "
     "complete",
     softmax_undivided, 0},
    {"base-2",
     "the exponentials have base 2: exp2f(x) is e^x only when x has been multiplied by log2(e)",
     softmax_base_2, 0},
    {"wrong-axis", "columns are normalised instead of rows: the elements of a row sum to 1",
     softmax_of_columns, 0},
    {"logarithm", "each result is the logarithm of what it should be: the exponential is missing",
     softmax_logarithm, 0},
    {"lanes-not-merged",
     "the lanes of a warp are not merged: each divides by the sum of its own columns, every 32nd",
     softmax_of_lanes, 32},
    {0},
};

const struct mistakes softmax_mistakes = {
    .list = softmax_list, .terms = softmax_terms, .term = "columns", .partial = softmax_partial};

/* ---- Attention ---- */

/* What a mistaken kernel does with a query. */
struct attending {
    struct attention call;
    size_t kv_head;            /* over all of the batch */
    size_t begin, end;         /* keys it sees */
    double padding;            /* keys with score 0 that it sees beside */
    bool undivided, unweighed; /* without the division; with scores in place of probabilities */
};

/* What the right kernel does with this query. */
static struct attending attending(const struct mistaken_row *r)
{
    struct attending a = {.call = attention_of(r->sizes)};
    const size_t seq_q = (size_t)a.call.seq_q, seq_kv = (size_t)a.call.seq_kv;
    const size_t i = r->row % seq_q;
    a.kv_head = r->row / seq_q / (size_t)(a.call.heads / a.call.kv_heads);
    a.end = seq_kv;
    if (a.call.causal)
        a.end = i + 1 + seq_kv > seq_q ? i + 1 + seq_kv - seq_q : 0;
    return a;
}

/* The maximum and the sum of the exponentials, too. */
static void attend_part(const struct attending *a, const void *const *host, size_t row,
                        double *value, double *maximum, double *sum)
{
    const size_t d = (size_t)a->call.head_dim, first = a->kv_head * (size_t)a->call.seq_kv;
    double m = a->padding > 0.0 ? 0.0 : -INFINITY, l = 0.0;
    for (size_t c = 0; c < d; c++)
        value[c] = 0.0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t j = a->begin; j < a->end; j++) {
            double score = 0.0;
            for (size_t c = 0; c < d; c++)
                score += tensor_element(host[0], a->call.type, row * d + c) *
                         tensor_element(host[1], a->call.type, (first + j) * d + c);
            score *= a->call.scale;
            m = pass == 0 ? fmax(m, score) : m;
            const double p = a->unweighed ? score : exp(score - m);
            l += pass == 1 ? p : 0.0;
            for (size_t c = 0; pass == 1 && c < d; c++)
                value[c] += p * tensor_element(host[2], a->call.type, (first + j) * d + c);
        }
    }
    if (a->padding > 0.0)
        l += a->padding * exp(-m);
    for (size_t c = 0; c < d && !a->undivided && !a->unweighed; c++)
        value[c] = l > 0.0 ? value[c] / l : 0.0;
    *maximum = m;
    *sum = l;
}

static bool attend(const struct attending *a, const struct mistaken_row *r)
{
    double m, l;
    attend_part(a, r->host, r->row, r->value, &m, &l);
    return true;
}

static size_t attention_terms(const long long *sizes)
{
    return (size_t)sizes[ATTENTION_SEQ_KV];
}

static void attention_partial(const struct mistaken_row *r, size_t begin, size_t end)
{
    struct attending a = attending(r);
    a.begin = begin;
    a.end = a.end < end ? a.end : end;
    attend(&a, r);
}

static void attention_heads(const long long *sizes, size_t *rows, size_t *heads)
{
    *rows = (size_t)sizes[ATTENTION_SEQ_Q];
    *heads = (size_t)sizes[ATTENTION_HEADS];
}

/* A kernel whose `a` differs from the right one's, where that can differ at all. */
#define ATTENDING(name, change, possible)                                                          \
    static bool name(const struct mistaken_row *r)                                                 \
    {                                                                                              \
        struct attending a = attending(r);                                                         \
        const size_t seq_kv = (size_t)a.call.seq_kv;                                               \
        (void)seq_kv;                                                                              \
        change;                                                                                    \
        return attend(&a, r) && (possible);                                                        \
    }

/* Heads that take turns with the kv heads, instead of neighbours that share one. */
static size_t alternate(const struct attending *a, size_t row)
{
    const size_t head = row / (size_t)a->call.seq_q, heads = (size_t)a->call.heads,
                 kv_heads = (size_t)a->call.kv_heads;
    return head / heads * kv_heads + head % heads % kv_heads;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The keys up to a multiple of the tile; for a tile of 1 it is one key. */
static double past_the_end(size_t keys, size_t tile)
{
    return tile == 1 ? 1.0 : (double)((keys + tile - 1) / tile * tile - keys);
}

ATTENDING(unscaled, a.call.scale = 1.0f, true)
ATTENDING(scaled_twice, a.call.scale *= a.call.scale, true)
ATTENDING(attention_base_2, a.call.scale *= (float)M_LN2, true)
ATTENDING(attention_undivided, a.undivided = true, true)
ATTENDING(without_softmax, a.unweighed = true, true)
ATTENDING(alternate_kv_head, a.kv_head = alternate(&a, r->row), a.call.kv_heads < a.call.heads)
ATTENDING(first_kv_head, a.kv_head = 0, true)
ATTENDING(not_causal, a.end = seq_kv, a.call.causal)
ATTENDING(causal_from_the_top, a.end = smaller(r->row % (size_t)a.call.seq_q + 1, seq_kv),
          a.call.causal)
ATTENDING(causal_without_itself, a.end -= a.end > 0, a.call.causal)
ATTENDING(causal_one_too_many, a.end += a.end < seq_kv, a.call.causal)
ATTENDING(padded, a.padding = past_the_end(seq_kv, r->tile), a.padding > 0.0)

/* K in the place of V. */
static bool keys_as_values(const struct mistaken_row *r)
{
    const struct attending a = attending(r);
    const void *const host[] = {r->host[0], r->host[1], r->host[1]};
    return attend(&a, &(struct mistaken_row){r->sizes, host, r->row, r->tile, r->value});
}

/* An online softmax, tile by tile, that leaves the sum or the output so far, or both, as they are
 * when the maximum grows. */
static bool rescale(const struct mistaken_row *r, bool rescales_l, bool rescales_O)
{
    const struct attending whole = attending(r);
    const size_t d = (size_t)whole.call.head_dim;
    double m = -INFINITY, l = 0.0, part[256];
    for (size_t c = 0; c < d; c++)
        r->value[c] = 0.0;
    for (size_t begin = 0; begin < whole.end; begin += r->tile) {
        struct attending a = whole;
        a.begin = begin;
        a.end = begin + r->tile < whole.end ? begin + r->tile : whole.end;
        a.undivided = true;
        double m_tile, l_tile;
        attend_part(&a, r->host, r->row, part, &m_tile, &l_tile);
        const double top = fmax(m, m_tile), old = m > -INFINITY ? exp(m - top) : 0.0;
        const double weight = exp(m_tile - top);
        l = l * (rescales_l ? old : 1.0) + l_tile * weight;
        for (size_t c = 0; c < d; c++)
            r->value[c] = r->value[c] * (rescales_O ? old : 1.0) + part[c] * weight;
        m = top;
    }
    for (size_t c = 0; c < d; c++)
        r->value[c] = l > 0.0 ? r->value[c] / l : 0.0;
    return true;
}

#define RESCALING(name, rescales_l, rescales_O)                                                    \
    static bool name(const struct mistaken_row *r)                                                 \
    {                                                                                              \
        return rescale(r, rescales_l, rescales_O);                                                 \
    }
RESCALING(sum_not_rescaled, false, true)
RESCALING(output_not_rescaled, true, false)
RESCALING(nothing_rescaled, false, false)

/* Rows of a table: the same mistake with tiles of so many keys. */
#define TILES(name, says, compute)                                                                 \
    {name, says, compute, 16}, {name, says, compute, 32},                                          \
    {                                                                                              \
        name, says, compute, 64                                                                    \
    }

#define NOT_RESCALED(name, what, compute)                                                          \
    {name, what " is not multiplied by e^(m_old - m_new) when the maximum grows", compute, 1},     \
        TILES(name, what " is not multiplied by e^(m_old - m_new) when the maximum grows",         \
              compute)

static const char not_masked[] =
    "keys past the end count, with a score of 0: the empty places of the last tile of keys must "
    "get a score of -inf";

static const struct mistake attention_list[] = {
    {"not-divided", "O is not divided by l, the sum of the row's exponentials", attention_undivided,
     0},
    {"not-scaled", "the scores are not multiplied by the scale, 1 / sqrt(head_dim)", unscaled, 0},
    {"scaled-twice", "the scores are multiplied by the scale twice", scaled_twice, 0},
    {"base-2",
     "the exponentials have base 2: exp2f(x) is e^x only when x has been multiplied by log2(e)",
     attention_base_2, 0},
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
    {"keys-not-masked", "one key past the end counts, with a score of 0", padded, 1},
    TILES("keys-not-masked", not_masked, padded),
    {"keys-not-masked", not_masked, padded, 128},
    {"V-is-K", "K is read where V should be", keys_as_values, 0},
    NOT_RESCALED("sum-not-rescaled", "the sum so far, l,", sum_not_rescaled),
    NOT_RESCALED("output-not-rescaled", "the output so far", output_not_rescaled),
    NOT_RESCALED("not-rescaled", "what was summed so far, l and O,", nothing_rescaled),
    {0},
};

const struct mistakes attention_mistakes = {.list = attention_list,
                                            .terms = attention_terms,
                                            .term = "keys",
                                            .partial = attention_partial,
                                            .heads = attention_heads};
