/*
 * Each explanation of wrong values has a kernel that deserves it. A kernel must get the explanation
 * that it deserves and no other; where none fits it must get none.
 *
 * The kernels are host functions of the right type that copy, compute with one mistake, and copy
 * back.
 */
#include "problems/attention.h"
#include "problems/attention_backward.h"
#include "harness/explain.h"
#include "tests/support/harness.h"
#include "tests/support/ladder.h"
#include "problems/matmul.h"
#include "problems/softmax.h"
#include "harness/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *planted; /* the mistake that the kernel now makes */

static bool now(const char *name)
{
    return strcmp(planted, name) == 0;
}

static float *fetch(const void *device, size_t count)
{
    float *host = malloc(count * sizeof *host);
    cr_assert(host && cudaMemcpy(host, device, count * sizeof *host, cudaMemcpyDeviceToHost) ==
                          cudaSuccess);
    return host;
}

static void put(void *device, const float *host, size_t count)
{
    cr_assert(cudaMemcpy(device, host, count * sizeof *host, cudaMemcpyHostToDevice) ==
              cudaSuccess);
}

/* The checked build's kernels find this in their own memory, where they have stored nothing. */
static float no_value(void)
{
    float value;
    memset(&value, 0xfe, sizeof value);
    return value;
}

static struct explanation explanation_of(const struct problem *problem, const struct kernel *kernel,
                                         const long long *sizes, enum input_kind inputs,
                                         const char *mistake)
{
    planted = mistake;
    struct trial trial = ladder_trial(problem, sizes, inputs, 3, 0);
    const struct verdict verdict = trial_run(&trial, kernel);
    cr_expect((verdict.status == VERDICT_PASS) == now("sound"), "%s: %s", mistake, verdict.reason);
    const struct explanation none = {0}, e = verdict.explanation ? *verdict.explanation : none;
    trial_destroy(&trial);
    return e;
}

static void expect(const struct problem *problem, const struct kernel *kernel,
                   const long long *sizes, const char *mistake, const char *name, const char *words)
{
    const struct explanation e = explanation_of(problem, kernel, sizes, INPUTS_NORMAL, mistake);
    cr_expect(strcmp(e.name, name) == 0, "%s is called '%s', not '%s': %s. %s", mistake, e.name,
              name, e.where, e.why);
    cr_expect(strstr(e.why, words) != NULL, "%s: '%s' does not say '%s'", mistake, e.why, words);
}

/* ---------------------------------------------------------------------------------------------- */
/* Matrix product */

static float element(const float *A, const float *B, const float *C, int row, int col, int M, int N,
                     int K)
{
    double sum = 0.0;
    int begin = now("first product missing"), end = K;
    if (now("first 8 products"))
        end = 8;
    else if (now("last product missing"))
        end = K - 1;
    else if (now("last tile of K missing"))
        end = K / 16 * 16;
    if (now("adds to what is there"))
        sum = C[row * N + col];
    else if (now("sum that begins with nothing"))
        sum = no_value();
    enum { T = 8 }; /* tiles are T x T */
    for (int k = begin; k < end; k++) {
        const int x = col % T, y = row % T, in_tile = k % T;
        float a = now("A transposed") ? A[k * M + row] : A[row * K + k];
        float b = now("B transposed") ? B[col * K + k]
                  : now("B by K")     ? B[k * K + col]
                                      : B[k * N + col];
        if (now("A without k0"))
            a = A[row * K + in_tile];
        else if (now("B without k0"))
            b = B[in_tile * N + col];
        else if (now("tile of B transposed")) /* past the edge it has zeros */
            b = k - in_tile + x < K && col - x + in_tile < N
                    ? B[(k - in_tile + x) * N + col - x + in_tile]
                    : 0.0f;
        else if (now("tile of A transposed"))
            a = row - y + in_tile < M && k - in_tile + y < K
                    ? A[(row - y + in_tile) * K + k - in_tile + y]
                    : 0.0f;
        if (in_tile != x && now("As of zeros, not shared"))
            a = 0.0f;
        else if (in_tile != x && now("As not shared"))
            a = no_value();
        if (in_tile != y && now("Bs of zeros, not shared"))
            b = 0.0f;
        if (now("int sum"))
            sum = (int)(sum + (double)a * b);
        else
            sum = now("As not shared") ? (float)sum + a * b : sum + (double)a * b;
    }
    if (now("twice"))
        sum *= 2.0;
    if (now("infinity less infinity"))
        sum = row == 5 ? sum + INFINITY - INFINITY : sum;
    if (now("one element"))
        sum += row == 5 && col == 7;
    if (now("noise"))
        sum += 0.1 * sin(row * 12.9 + col * 78.2);
    return (float)sum;
}

static cudaError_t mistaken_matmul(const float *A, const float *B, float *C, int M, int N, int K,
                                   cudaStream_t stream)
{
    static int runs;
    (void)stream;
    float *a = fetch(A, (size_t)(M * K)), *b = fetch(B, (size_t)(K * N));
    float *before = fetch(C, (size_t)(M * N)), *c = fetch(C, (size_t)(M * N));
    for (int row = 0; row < M; row++) {
        for (int col = 0; col < N; col++) {
            int r = row, to = row * N + col, x = col;
            if (now("transposed"))
                to = col * M + row;
            else if (now("rows in pairs"))
                r = row ^ 1;
            else if (now("columns in pairs"))
                x = col ^ 1;
            else if (now("a column later"))
                x = (col + N - 1) % N;
            else if (now("a row earlier"))
                r = (row + 1) % M;
            if ((now("edge not written") && row >= M / 16 * 16) || r >= M || x >= N ||
                (now("threadIdx.y is 0") && row % 16 != 0) ||
                (now("threadIdx.y is 0, down") && col % 8 != 0))
                continue;
            c[to] = element(a, b, before, r, x, M, N, K);
            if (now("zeros"))
                c[to] = 0.0f;
            if (now("edge columns wrong") && col >= N / 16 * 16)
                c[to] += (float)sin(row * 12.9 + col * 78.2);
            if (now("other values each time"))
                c[to] += (float)(runs % 2) + 1.0f;
        }
    }
    runs++;
    put(C, c, (size_t)(M * N));
    free(a);
    free(b);
    free(before);
    free(c);
    return cudaSuccess;
}

static const struct matmul_kernel matmul_kernel = {.about.name = "mistaken",
                                                   .launch = mistaken_matmul};

static void expect_matmul(const char *mistake, const char *name, const char *words)
{
    expect(&matmul_problem, &matmul_kernel.about, MATMUL_SIZES(36, 22, 20), mistake, name, words);
}

TEST(matmul, each_mistake_has_its_name)
{
    expect_matmul("sound", "", "");
    expect_matmul("transposed", "transposed", "C is stored transposed");
    expect_matmul("rows in pairs", "rows-swapped", "row 0 holds what belongs into row 1");
    expect_matmul("columns in pairs", "columns-swapped",
                  "column 0 holds what belongs into column 1");
    expect_matmul("a column later", "shifted", "column col holds what belongs into column col - 1");
    expect_matmul("a row earlier", "shifted", "row r holds what belongs into row r + 1");
    expect_matmul("first 8 products", "only-the-first", "only the first 8 of 20 products");
    expect_matmul("last product missing", "only-the-first", "only the first 19 of 20 products");
    expect_matmul("last tile of K missing", "last-tile", "the last 4 of 20 products");
    expect_matmul("first product missing", "first-missing", "the first 1 of 20 products");
    expect_matmul("A transposed", "A-transposed", "A[row * K + k], not A[k * M + row]");
    expect_matmul("B transposed", "B-transposed", "B[k * N + col], not B[col * K + k]");
    expect_matmul("B by K", "B-stride", "taken to be K elements long");
    expect_matmul("twice", "factor", "2 times what it should be: something is added twice");
    expect_matmul("zeros", "zeros", "every wrong element is 0");
    expect_matmul("edge not written", "ragged", "the first 32 rows fill whole tiles");
    expect_matmul("edge columns wrong", "ragged", "the first 16 columns fill whole tiles");
    expect_matmul("infinity less infinity", "not-a-number", "arithmetic made the NaN");
    expect_matmul("other values each time", "unstable", "does not begin at 0");
    expect_matmul("int sum", "integers", "kept in an int");
    expect_matmul("A without k0", "A-first-tile", "k0, is missing in A's index");
    expect_matmul("B without k0", "B-first-tile", "k0, is missing in B's index");
    expect_matmul("tile of B transposed", "B-tile-transposed", "each tile of B");
    expect_matmul("tile of A transposed", "A-tile-transposed", "each tile of A");
    expect_matmul("As of zeros, not shared", "not-shared", "is the tile declared as __shared__?");
    expect_matmul("Bs of zeros, not shared", "not-shared", "is the tile declared as __shared__?");
    expect_matmul("As not shared", "without-value", "should be __shared__");
    expect_matmul("sum that begins with nothing", "without-value", "does not begin at 0");
    expect_matmul("threadIdx.y is 0", "one-dimension", "only every 16th row, from 0, is written");
    expect_matmul("threadIdx.y is 0, down", "one-dimension", "only every 8th column");
    expect_matmul("one element", "", "");
    expect_matmul("noise", "", "");
}

/* On a GPU a NaN loses its origin in arithmetic; here the host computes. */
TEST(matmul, poison_that_is_read_has_a_name)
{
    expect_matmul("adds to what is there", "poison-read",
                  "C[0][0] was computed from C as it was before the kernel wrote it");
}

static struct explanation matmul_explanation(const long long *sizes, const char *mistake)
{
    return explanation_of(&matmul_problem, &matmul_kernel.about, sizes, INPUTS_NORMAL, mistake);
}

/* In a matrix of one tile, nothing shows which of the two is read transposed. */
TEST(matmul, a_tile_is_not_the_matrix)
{
    const char *const either = "B, or a tile of it, is read as if it were transposed";
    struct explanation e = matmul_explanation(MATMUL_SIZES(8, 8, 8), "tile of B transposed");
    cr_expect(strstr(e.why, either) != NULL, "%s", e.why);
    e = matmul_explanation(MATMUL_SIZES(8, 8, 8), "B transposed");
    cr_expect(strstr(e.why, either) != NULL, "%s", e.why);
    e = matmul_explanation(MATMUL_SIZES(40, 40, 40), "B transposed");
    cr_expect(strstr(e.why, "B is read as if") == e.why, "%s", e.why);
    e = matmul_explanation(MATMUL_SIZES(40, 40, 40), "tile of B transposed");
    cr_expect(strcmp(e.name, "B-tile-transposed") == 0, "%s: %s", e.name, e.why);
}

/* A product has no exponentials, whose underflow would make zeros. */
TEST(matmul, zeros_are_not_exponentials)
{
    const struct explanation e = matmul_explanation(MATMUL_SIZES(36, 22, 20), "zeros");
    cr_expect(strstr(e.why, "e^x") == NULL, "%s", e.why);
}

TEST(matmul, one_tile_of_which_one_row_is_written)
{
    const struct explanation e = matmul_explanation(MATMUL_SIZES(16, 16, 16), "threadIdx.y is 0");
    cr_expect(strstr(e.why, "only row 0 is written") != NULL, "%s: %s", e.name, e.why);
}

TEST(matmul, place_and_map)
{
    const long long *const sizes = MATMUL_SIZES(36, 22, 20);
    const struct explanation e = explanation_of(&matmul_problem, &matmul_kernel.about, sizes,
                                                INPUTS_NORMAL, "edge not written");
    cr_expect(strstr(e.where,
                     "88 of 792 elements of C are wrong (never written): rows 32-35 of 36; "
                     "all 22 columns") != NULL,
              "%s", e.where);
    cr_expect(strstr(e.map, "   28 ......................\n   32 ______________________\n") != NULL,
              "%s", e.map);
    const struct explanation one =
        explanation_of(&matmul_problem, &matmul_kernel.about, sizes, INPUTS_NORMAL, "one element");
    cr_expect(strstr(one.where, "1 of 792 elements of C is wrong: row 5 of 36; column 7 of 22") !=
                  NULL,
              "%s", one.where);
}

/* ---------------------------------------------------------------------------------------------- */
/* Softmax */

static cudaError_t mistaken_softmax(const float *input, float *output, int rows, int cols,
                                    cudaStream_t stream)
{
    (void)stream;
    float *x = fetch(input, (size_t)(rows * cols)), *y = fetch(output, (size_t)(rows * cols));
    for (int row = 0; row < rows; row++) {
        const int counted = now("without the last tile") ? cols / 8 * 8 : cols;
        double m = -INFINITY, l = 0.0, running = 0.0, top = -INFINITY;
        for (int col = 0; col < counted; col++)
            m = fmax(m, x[row * cols + col]);
        for (int col = 0; col < counted; col++) {
            top = fmax(top, x[row * cols + col]);
            running += exp(x[row * cols + col] - top); /* the old sum is not rescaled */
            l += now("base 2") ? exp2(x[row * cols + col] - m) : exp(x[row * cols + col] - m);
        }
        if (now("sum not rescaled"))
            l = running;
        float partial[32] = {0.0f}; /* of each lane */
        for (int col = 0; col < cols; col++)
            partial[col % 32] += expf(x[row * cols + col] - (float)m);
        for (int distance = 16; distance > 0; distance /= 2) /* __shfl_down_sync() */
            for (int lane = 0; lane < 32; lane++)
                partial[lane] += lane + distance < 32 ? partial[lane + distance] : partial[lane];
        for (int col = 0; col < cols; col++) {
            double e = exp(x[row * cols + col] - m);
            if (now("base 2"))
                e = exp2(x[row * cols + col] - m);
            if (now("each lane alone")) {
                l = 0.0;
                m = -INFINITY;
                for (int c = col % 32; c < cols; c += 32)
                    m = fmax(m, x[row * cols + c]);
                for (int c = col % 32; c < cols; c += 32)
                    l += exp(x[row * cols + c] - m);
                e = exp(x[row * cols + col] - m);
            }
            if (now("by columns")) {
                l = 0.0;
                for (int r = 0; r < rows; r++)
                    l += exp(x[r * cols + col] - m);
            }
            if (now("shuffled down"))
                l = partial[col % 32];
            y[row * cols + col] = (float)(now("not divided") ? e
                                          : now("logarithm") ? log(e / l)
                                                             : e / l);
        }
    }
    put(output, y, (size_t)(rows * cols));
    free(x);
    free(y);
    return cudaSuccess;
}

static const struct softmax_kernel softmax_kernel = {.about.name = "mistaken",
                                                     .launch = mistaken_softmax};

static void expect_softmax(const char *mistake, const char *name, const char *words)
{
    expect(&softmax_problem, &softmax_kernel.about, SOFTMAX_SIZES(7, 45), mistake, name, words);
}

TEST(softmax, each_mistake_has_its_name)
{
    expect_softmax("sound", "", "");
    expect_softmax("not divided", "not-divided", "without the division by the row's sum");
    expect_softmax("base 2", "base-2", "exp2f");
    expect_softmax("by columns", "wrong-axis", "columns are normalised instead of rows");
    expect_softmax("each lane alone", "lanes-not-merged", "every 32nd");
    expect_softmax("logarithm", "logarithm", "the exponential is missing");
    expect_softmax("sum not rescaled", "row-factor", "not rescaled when the maximum grows");
    expect_softmax("without the last tile", "last-tile", "the last 5 of 45 columns");
    expect_softmax("shuffled down", "lane-0", "only the columns of lane 0 are right");
}

/* ---------------------------------------------------------------------------------------------- */
/* Attention */

/* Returns where key j of a kv head begins. The call's tables are on the host. */
static size_t key_at(const struct attention *call, int kv_head, int j)
{
    const int heads = call->kv_heads, size = call->page_size, d = call->head_dim;
    if (call->pages == NULL || now("pages not heeded"))
        return (size_t)(kv_head * call->seq_kv + j) * d;
    const int columns = (call->seq_kv + size - 1) / size;
    const int page = call->pages[kv_head / heads * columns + j / size];
    if (now("keys before heads"))
        return (size_t)((page * size + j % size) * heads + kv_head % heads) * d;
    return (size_t)((page * heads + kv_head % heads) * size + j % size) * d;
}

static void attend(const struct attention *call, const float *Q, const float *K, const float *V,
                   int row, float *O, float *LSE)
{
    const int d = call->head_dim, head = row / call->seq_q;
    const int seq_kv = call->lengths ? call->lengths[head / call->heads] : call->seq_kv;
    int kv_head = head / (call->heads / call->kv_heads);
    if (now("kv heads by turns"))
        kv_head = head / call->heads * call->kv_heads + head % call->heads % call->kv_heads;
    else if (now("K and V of the first head"))
        kv_head = 0;
    int keys = seq_kv;
    if (call->causal)
        keys = (int)fmax(0.0, row % call->seq_q + 1 + seq_kv - call->seq_q);
    if (now("mask forgotten"))
        keys = seq_kv;
    else if (now("mask from the top"))
        keys = row % call->seq_q + 1;
    else if (now("mask one short"))
        keys--;
    else if (now("mask one long"))
        keys += keys < seq_kv;
    else if (now("last key missing"))
        keys -= keys == seq_kv;
    else if (now("last keys missing"))
        keys = seq_kv / 16 * 16;
    double scale = call->scale, l = 0.0, sum[128] = {0.0};
    if (now("no scale"))
        scale = 1.0;
    else if (now("scale twice"))
        scale *= scale;
    else if (now("base 2"))
        scale *= M_LN2;
    /* Exponentials are relative to the maximum so far in kernels that do not rescale; otherwise to
     * 0. */
    const bool online = now("l stays") || now("O stays") || now("l and O stay");
    const bool mean = now("mean rescaled as a sum") || now("divided at each key");
    double m = online || mean ? -INFINITY : 0.0;
    for (int j = 0; j < keys; j++) {
        double score = 0.0;
        for (int c = 0; c < d; c++)
            score += (double)Q[row * d + c] * K[key_at(call, kv_head, j) + c];
        score *= scale;
        const double top = online || mean ? fmax(m, score) : 0.0, old = exp(m - top);
        const double p = now("no softmax") ? score : exp(score - top);
        l = l * (now("l stays") || now("l and O stay") ? 1.0 : old) + p;
        for (int c = 0; c < d; c++) {
            const float v = (now("K for V") ? K : V)[key_at(call, kv_head, j) + c];
            sum[c] = sum[c] * (now("O stays") || now("l and O stay") ? 1.0 : old) +
                     (now("mean rescaled as a sum") ? p / l : p) * v;
            sum[c] /= now("divided at each key") ? l : 1.0;
        }
        m = top;
    }
    if (now("keys not masked"))
        l += 32 - seq_kv % 32;
    const bool undivided = now("no softmax") || now("not divided") || mean;
    for (int c = 0; c < d; c++)
        O[row * d + c] = (float)(undivided ? sum[c] : l > 0.0 ? sum[c] / l : 0.0);
    if (now("not divided")) /* their exponentials are relative to 0 */
        for (int c = 0; c < d; c++)
            O[row * d + c] = (float)sum[c];
    if (now("one head") && head > 0)
        for (int c = 0; c < d; c++)
            O[row * d + c] += (float)sin(row * 12.9 + c * 78.2);
    if (now("one sequence") && head >= call->heads)
        for (int c = 0; c < d; c++)
            O[row * d + c] += (float)sin(row * 12.9 + c * 78.2);
    LSE[row] = (float)(l > 0.0 ? log(l) : -INFINITY);
    if (now("LSE in base 2"))
        LSE[row] = (float)(log(l) * M_LOG2E);
}

static cudaError_t mistaken_attention(const struct attention *call)
{
    const size_t rows = attention_query_rows(call), d = (size_t)call->head_dim;
    const size_t keys = call->pages ? (size_t)call->pool_pages * call->kv_heads * call->page_size
                                    : (size_t)call->batch * call->kv_heads * call->seq_kv;
    const size_t entries =
        call->pages ? (size_t)call->batch * (call->seq_kv + call->page_size - 1) / call->page_size
                    : 0;
    float *Q = fetch(call->Q, rows * d), *K = fetch(call->K, keys * d),
          *V = fetch(call->V, keys * d);
    float *O = fetch(call->O, rows * d), *LSE = fetch(call->LSE, rows);
    struct attention on_host = *call;
    void *lengths = call->lengths ? fetch(call->lengths, (size_t)call->batch) : NULL;
    void *pages = call->pages ? fetch(call->pages, entries) : NULL;
    on_host.lengths = lengths;
    on_host.pages = pages;
    for (size_t row = 0; row < rows; row++)
        attend(&on_host, Q, K, V, (int)row, O, LSE);
    free(lengths);
    free(pages);
    put(call->O, O, rows * d);
    put(call->LSE, LSE, rows);
    free(Q);
    free(K);
    free(V);
    free(O);
    free(LSE);
    return cudaSuccess;
}

static const struct attention_kernel attention_kernel = {.about.name = "mistaken",
                                                         .launch = mistaken_attention,
                                                         .max_head_dim = 128,
                                                         .causal = true,
                                                         .lengths = true,
                                                         .paged = true};

static void expect_attention(bool causal, const char *mistake, const char *name, const char *words)
{
    const long long sizes[MAX_SIZES] = {
        [ATTENTION_BATCH] = 2,      [ATTENTION_HEADS] = 4,   [ATTENTION_KV_HEADS] = 2,
        [ATTENTION_SEQ_Q] = 11,     [ATTENTION_SEQ_KV] = 22, [ATTENTION_HEAD_DIM] = 12,
        [ATTENTION_CAUSAL] = causal};
    expect(&attention_problem, &attention_kernel.about, sizes, mistake, name, words);
}

static void expect_in_pages(bool lengths, const char *mistake, const char *name)
{
    const long long sizes[MAX_SIZES] = {[ATTENTION_BATCH] = 3,
                                        [ATTENTION_HEADS] = 4,
                                        [ATTENTION_KV_HEADS] = 2,
                                        [ATTENTION_SEQ_Q] = 2,
                                        [ATTENTION_SEQ_KV] = lengths ? 70 : 64,
                                        [ATTENTION_HEAD_DIM] = 12,
                                        [ATTENTION_CAUSAL] = lengths,
                                        [ATTENTION_LENGTHS] = lengths,
                                        [ATTENTION_PAGE] = 16};
    const struct explanation e =
        explanation_of(&attention_problem, &attention_kernel.about, sizes, INPUTS_NORMAL, mistake);
    cr_expect(strcmp(e.name, name) == 0, "%s is called '%s', not '%s': %s. %s", mistake, e.name,
              name, e.where, e.why);
}

static void expect_of_inputs(enum input_kind inputs, const char *mistake, const char *name)
{
    const long long sizes[MAX_SIZES] = {
        [ATTENTION_BATCH] = 1,    [ATTENTION_HEADS] = 2,   [ATTENTION_KV_HEADS] = 2,
        [ATTENTION_SEQ_Q] = 19,   [ATTENTION_SEQ_KV] = 37, [ATTENTION_HEAD_DIM] = 32,
        [ATTENTION_CAUSAL] = true};
    const struct explanation e =
        explanation_of(&attention_problem, &attention_kernel.about, sizes, inputs, mistake);
    cr_expect(strcmp(e.name, name) == 0, "%s is called '%s', not '%s': %s. %s", mistake, e.name,
              name, e.where, e.why);
}

/* Pages lie all over the pool. What lies past a sequence's end is neither finite nor a page. */
TEST(attention, keys_in_pages)
{
    expect_in_pages(false, "sound", "");
    expect_in_pages(true, "sound", "");
    expect_in_pages(false, "keys before heads", "page-layout");
    expect_in_pages(false, "kv heads by turns", "kv-head");
    expect_in_pages(false, "pages not heeded", "not-paged");
}

/* With constant keys, the query that loses one has the output of the query before. */
TEST(attention, a_lost_key_is_no_shift)
{
    expect_of_inputs(INPUTS_CONSTANT, "last key missing", "only-the-first");
    expect_of_inputs(INPUTS_CONSTANT, "mask one short", "causal-too-few");
    expect_of_inputs(INPUTS_CONSTANT, "mask one long", "causal-too-many");
    expect_of_inputs(INPUTS_CONSTANT, "mask forgotten", "not-causal");
    expect_of_inputs(INPUTS_SPECIAL, "keys not masked", ""); /* only some of LSE is wrong */
}

/* The first head has no key in its last three places but those: no tile is to blame. */
TEST(attention, few_elements_are_no_evidence)
{
    expect_of_inputs(INPUTS_SPECIAL, "last keys missing", "");
}

TEST(attention, each_mistake_has_its_name)
{
    expect_attention(false, "sound", "", "");
    expect_attention(true, "sound", "", "");
    expect_attention(false, "no scale", "not-scaled", "1 / sqrt(head_dim)");
    expect_attention(false, "scale twice", "scaled-twice", "twice");
    expect_attention(false, "base 2", "base-2", "exp2f");
    expect_attention(false, "no softmax", "no-softmax", "the scores themselves");
    expect_attention(false, "not divided", "row-factor", "a division that is missing");
    expect_attention(false, "kv heads by turns", "kv-head", "head h reads h / (heads / kv_heads)");
    expect_attention(false, "K and V of the first head", "first-kv-head", "offset is missing");
    expect_attention(false, "keys not masked", "keys-not-masked", "must get a score of -inf");
    expect_attention(false, "K for V", "V-is-K", "where V should be");
    expect_attention(false, "l stays", "sum-not-rescaled", "the sum so far");
    expect_attention(false, "O stays", "output-not-rescaled", "the output so far");
    expect_attention(false, "l and O stay", "not-rescaled", "l and O");
    expect_attention(false, "mean rescaled as a sum", "mean-rescaled", "l_old / l_new");
    expect_attention(false, "divided at each key", "divided-often", "divide once, after the last");
    expect_attention(false, "last keys missing", "last-tile", "the last 6 of 22 keys");
    expect_attention(false, "one head", "first-head", "only the first head is right");
    expect_attention(false, "one sequence", "first-batch", "only the first sequence");
    expect_attention(false, "LSE in base 2", "factor", "log2(e)");
    expect_attention(true, "mask forgotten", "not-causal", "not applied");
    expect_attention(true, "mask from the top", "causal-top-left", "seq_kv - seq_q");
    expect_attention(true, "mask one short", "causal-too-few", "its own position");
    expect_attention(true, "mask one long", "causal-too-many", "one key too many");
}

/* ---------------------------------------------------------------------------------------------- */
/* Attention, backward */

/* Arrays on the host: copies of the call's, and sums. */
struct gradients {
    float *Q, *K, *V, *O, *LSE, *dO;
    double *dQ, *dK, *dV;
};

static double product(const float *a, const float *b, int d)
{
    double sum = 0.0;
    for (int c = 0; c < d; c++)
        sum += (double)a[c] * b[c];
    return sum;
}

/* Adds what one query contributes. */
static void go_back(const struct attention_backward *call, const struct gradients *g, int row)
{
    const int d = call->head_dim, seq_kv = call->seq_kv, head = row / call->seq_q;
    const int group = call->heads / call->kv_heads, first_key = head / group * seq_kv;
    const float *q = g->Q + row * d, *dO = g->dO + row * d;
    int keys = call->causal ? row % call->seq_q + 1 + seq_kv - call->seq_q : seq_kv;
    if (now("mask forgotten"))
        keys = seq_kv;
    else if (now("mask from the top"))
        keys = row % call->seq_q + 1;
    const double D = now("D forgotten") ? 0.0 : product(g->O + row * d, dO, d);
    const bool counts = !now("last head alone") || head % group == group - 1;
    const bool last = row % (group * call->seq_q) >= group * call->seq_q / 16 * 16;
    for (int j = 0; j < keys; j++) {
        const float *k = g->K + (first_key + j) * d, *v = g->V + (first_key + j) * d;
        const double S = product(q, k, d) * (now("no scale") ? 1.0 : call->scale);
        const double P = exp(S - (now("LSE forgotten") ? 0.0 : g->LSE[row]));
        const double dP = product(dO, now("K for V") ? k : v, d);
        const double dS = now("D not weighed") ? P * dP - D : P * (dP - D);
        const bool key = !now("last keys missing") || j < seq_kv / 16 * 16;
        for (int c = 0; c < d; c++) {
            g->dQ[row * d + c] += key ? dS * k[c] * (now("dQ unscaled") ? 1.0 : call->scale) : 0.0;
            if (!counts || (last && now("last queries missing")))
                continue;
            g->dK[(first_key + j) * d + c] += dS * q[c] * (now("dK unscaled") ? 1.0 : call->scale);
            g->dV[(first_key + j) * d + c] += (now("dV from S") ? S : P) * dO[c];
        }
    }
}

static void put_doubles(void *device, double *sums, size_t count)
{
    float *host = malloc(count * sizeof *host);
    for (size_t i = 0; i < count; i++)
        host[i] = (float)sums[i];
    put(device, host, count);
    free(host);
    free(sums);
}

static cudaError_t mistaken_backward(const struct attention_backward *call)
{
    const size_t rows = attention_backward_query_rows(call), d = (size_t)call->head_dim;
    const size_t keys = attention_backward_key_rows(call);
    const struct gradients g = {.Q = fetch(call->Q, rows * d),
                                .K = fetch(call->K, keys * d),
                                .V = fetch(call->V, keys * d),
                                .O = fetch(call->O, rows * d),
                                .LSE = fetch(call->LSE, rows),
                                .dO = fetch(call->dO, rows * d),
                                .dQ = calloc(rows * d, sizeof(double)),
                                .dK = calloc(keys * d, sizeof(double)),
                                .dV = calloc(keys * d, sizeof(double))};
    for (size_t row = 0; row < rows; row++)
        go_back(call, &g, (int)row);
    put_doubles(call->dQ, g.dQ, rows * d);
    put_doubles(call->dK, g.dK, keys * d);
    put_doubles(call->dV, g.dV, keys * d);
    float *const copies[] = {g.Q, g.K, g.V, g.O, g.LSE, g.dO};
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
        free(copies[i]);
    return cudaSuccess;
}

static const struct attention_backward_kernel backward_kernel = {
    .about.name = "mistaken", .launch = mistaken_backward, .max_head_dim = 128, .causal = true};

static void expect_backward(bool causal, const char *mistake, const char *name, const char *words)
{
    const long long sizes[MAX_SIZES] = {
        [ATTENTION_BATCH] = 2,      [ATTENTION_HEADS] = 4,   [ATTENTION_KV_HEADS] = 2,
        [ATTENTION_SEQ_Q] = 11,     [ATTENTION_SEQ_KV] = 22, [ATTENTION_HEAD_DIM] = 12,
        [ATTENTION_CAUSAL] = causal};
    expect(&attention_backward_problem, &backward_kernel.about, sizes, mistake, name, words);
}

TEST(attention_backward, each_mistake_has_its_name)
{
    expect_backward(false, "sound", "", "");
    expect_backward(true, "sound", "", "");
    expect_backward(false, "D forgotten", "without-D", "D = rowsum(dO∘O)");
    expect_backward(false, "D not weighed", "D-unweighed", "not from dP");
    expect_backward(false, "LSE forgotten", "without-LSE", "P = e^(S - LSE)");
    expect_backward(false, "no scale", "not-scaled", "1 / sqrt(head_dim)");
    expect_backward(false, "dQ unscaled", "dQ-not-scaled", "scale · dS·K");
    expect_backward(false, "dK unscaled", "dK-not-scaled", "scale · dSᵀ·Q");
    expect_backward(false, "dV from S", "dV-from-S", "not with the scores");
    expect_backward(false, "last head alone", "one-head-of-the-group", "they do not overwrite");
    expect_backward(false, "K for V", "V-is-K", "dP = dO·Vᵀ");
    expect_backward(false, "last keys missing", "last-tile", "the last 6 of 22 keys");
    expect_backward(false, "last queries missing", "last-tile", "the last 6 of 22 queries");
    expect_backward(true, "mask forgotten", "not-causal", "not applied");
    expect_backward(true, "mask from the top", "causal-top-left", "seq_kv - seq_q");
}
