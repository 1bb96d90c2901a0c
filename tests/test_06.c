/* Step 06: FlashAttention-2 in half precision, causal or not, from CUDA cores to Hopper. */
#include "06_causal_half/06_step.h"
#include "attention_cases.h"

static struct size in_half(struct size size, bool causal)
{
    size.causal = causal;
    size.type = TENSOR_F16;
    return size;
}

static void check(struct size size, bool causal, enum input_kind kind, uint64_t seed)
{
    check_sizes(causal_half_kernels, in_half(size, causal), kind, seed, 0);
}

static bool count(const char *name, struct size size, bool causal, struct counters *counters)
{
    return count_of(causal_half_kernels, name, in_half(size, causal), counters);
}

static struct trial half_trial(struct size size, bool causal, enum input_kind kind, uint64_t seed)
{
    return trial_with(in_half(size, causal), kind, seed);
}

/* ---------------------------------------------------------------------------------------------- */
/* Every rung, every shape. BM is 64, 128 or 192 and BN 32, 64 or 128. */

TEST(shapes, sequences_full)
{
    static const int seq[] = {1, 2, 31, 32, 33, 63, 65, 80, 100, 127, 129};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++)
        check((struct size){1, 1, 1, seq[i], seq[i], i % 4 == 3 ? 128 : 64}, false, INPUTS_NORMAL,
              3 + i);
}

/* The first query sees one key, the last all, and the diagonal cuts tiles in every way. */
TEST(shapes, sequences_causal)
{
    static const int seq[] = {1, 2, 3, 7, 17, 31, 32, 33, 63, 64, 65, 80, 100, 127, 128, 129, 131};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++)
        check((struct size){1, 1, 1, seq[i], seq[i], i % 4 == 1 ? 128 : 64}, true, INPUTS_NORMAL,
              31 + i);
}

/* At least two full tiles and a tail of every rung, both ways. */
TEST(shapes, tiles_and_tails_head_dim_64)
{
    check((struct size){1, 1, 1, 389, 261, 64}, true, INPUTS_NORMAL, 61);
    check((struct size){1, 1, 1, 261, 389, 64}, true, INPUTS_NORMAL, 62);
    check((struct size){1, 1, 1, 385, 300, 64}, false, INPUTS_NORMAL, 63);
}

TEST(shapes, tiles_and_tails_head_dim_128)
{
    check((struct size){1, 1, 1, 261, 261, 128}, true, INPUTS_NORMAL, 64);
    check((struct size){1, 1, 1, 257, 270, 128}, false, INPUTS_NORMAL, 65);
}

/* Multiples of 8 are what every rung takes; the padding is up to 64 or 128. */
TEST(shapes, head_dims)
{
    static const int head_dim[] = {8, 16, 32, 40, 56, 64, 72, 80, 96, 120, 128};
    for (size_t i = 0; i < sizeof head_dim / sizeof *head_dim; i++)
        check((struct size){1, 1, 1, 21, 70, head_dim[i]}, i % 2 == 0, INPUTS_NORMAL, 71 + i);
}

TEST(shapes, head_dims_of_half_alone)
{
    const struct attention_kernel half_alone[] = {causal_half_kernels[0], {.about.name = NULL}};
    static const int head_dim[] = {1, 2, 3, 4, 7, 9, 31, 33, 63, 65, 95, 97, 100, 127};
    for (size_t i = 0; i < sizeof head_dim / sizeof *head_dim; i++) {
        check_sizes(half_alone, in_half((struct size){1, 2, 1, 21, 70, head_dim[i]}, i % 2 == 0),
                    INPUTS_NORMAL, 91 + i, i % 3 * 4);
    }
}

/* Fewer queries than keys: the first query sees seq_kv - seq_q + 1 of them. A new token, a chunk of
 * a prompt. */
TEST(shapes, fewer_queries_than_keys)
{
    static const int seq[][2] = {{1, 300}, {2, 65},    {5, 129}, {64, 127},
                                 {65, 66}, {100, 293}, {3, 400}};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++)
        check((struct size){1, i < 2 ? 2 : 1, 1, seq[i][0], seq[i][1], i == 3 ? 128 : 64}, true,
              INPUTS_NORMAL, 111 + i);
}

/* More queries than keys: the first seq_q - seq_kv see none. Whole tiles of them, in {300, 1}. */
TEST(shapes, queries_that_see_no_key)
{
    static const int seq[][2] = {{2, 1},   {33, 32},   {65, 1}, {129, 64},
                                 {300, 1}, {293, 100}, {200, 7}};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++)
        check((struct size){1, i < 2 ? 2 : 1, 1, seq[i][0], seq[i][1], i == 3 ? 128 : 64}, true,
              INPUTS_NORMAL, 121 + i);
}

/* kv_heads 1, 2 and heads. */
TEST(shapes, batches_and_heads)
{
    static const int heads[][3] = {{2, 4, 1}, {2, 4, 2}, {1, 4, 4}, {3, 1, 1}, {1, 6, 3}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        check((struct size){heads[i][0], heads[i][1], heads[i][2], 37, 45, 64}, i % 2 == 0,
              INPUTS_NORMAL, 131 + i);
}

TEST(shapes, inputs)
{
    for (int kind = 0; kind < INPUT_KINDS; kind++) {
        check((struct size){1, 1, 1, 67, 131, 64}, true, (enum input_kind)kind, 141);
        check((struct size){1, 1, 1, 19, 70, 128}, false, (enum input_kind)kind, 142);
    }
}

TEST(shapes, nothing_to_see_and_nothing_to_do)
{
    for (int causal = 0; causal < 2; causal++) {
        check((struct size){1, 0, 0, 5, 5, 16}, causal, INPUTS_NORMAL, 151);
        check((struct size){0, 2, 1, 5, 5, 16}, causal, INPUTS_NORMAL, 152);
        check((struct size){1, 1, 1, 0, 0, 16}, causal, INPUTS_NORMAL, 153);
        check((struct size){1, 2, 1, 3, 0, 16}, causal, INPUTS_NORMAL, 154);
    }
}

/* More tiles than blocks that stay: the rung that draws its tiles draws. */
TEST(shapes, more_tiles_than_multiprocessors)
{
    int multiprocessors;
    cr_assert(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0) ==
              cudaSuccess);
    check((struct size){1, multiprocessors + 3, 1, 3, 9, 64}, true, INPUTS_NORMAL, 161);
    check((struct size){1, multiprocessors + 1, 1, 3, 9, 128}, false, INPUTS_NORMAL, 162);
}

/* Causal heads are taken in groups whose K and V are 8 MB (rows of 512 keys): here a group of 32
 * and one of 1, two tiles each. One rung stands for all that share tile_order.cuh. */
TEST(shapes, heads_in_groups)
{
    const struct kernel *kernel =
        ladder_find(&attention_problem, causal_half_kernels, "mma_pipelined");
    if (strcmp(backend_name(), "check") == 0) {
        fprintf(stderr, "too large to watch every access: heads in groups\n");
        return;
    }
    struct trial trial =
        half_trial((struct size){1, 33, 33, 129, 512, 128}, true, INPUTS_NORMAL, 171);
    const struct verdict verdict = trial_run(&trial, kernel);
    cr_expect(verdict.status == VERDICT_PASS || verdict.status == VERDICT_SKIPPED,
              "mma_pipelined: %s", verdict.reason);
    trial_destroy(&trial);
}

/* ---------------------------------------------------------------------------------------------- */
/* What can be said without a tolerance */

/* How many halves lie between two: 0 for the same (and for the two zeros), 1 for neighbours. */
static int halves_apart(uint16_t a, uint16_t b)
{
    const int place_a = a >> 15 ? -(a & 0x7fff) : a;
    const int place_b = b >> 15 ? -(b & 0x7fff) : b;
    return abs(place_a - place_b);
}

/* A query that sees one key: O is its value, to the bit. */
TEST(exact, first_row_is_the_first_value)
{
    struct trial trial = half_trial((struct size){1, 2, 2, 70, 70, 64}, true, INPUTS_NORMAL, 5);
    for (const struct attention_kernel *kernel = causal_half_kernels; kernel->about.name;
         kernel++) {
        if (!runs_here(kernel))
            continue;
        cr_assert(trial_run(&trial, &kernel->about).status == VERDICT_PASS);
        const uint16_t *O = trial.host[O_AT], *V = trial.host[V_AT];
        for (size_t head = 0; head < 2; head++)
            for (size_t c = 0; c < 64; c++)
                cr_expect(halves_apart(O[head * 70 * 64 + c], V[head * 70 * 64 + c]) == 0,
                          "%s: head %zu, O[0][%zu] is not V[0][%zu]", kernel->about.name, head, c,
                          c);
    }
    trial_destroy(&trial);
}

/* Runs a kernel with and without the mask; *apart is the largest difference in rows first_row
 * and after. */
static void mask_on_and_off(struct size size, const struct attention_kernel *kernel,
                            size_t first_row, int *apart, float *LSE_apart)
{
    struct trial masked = half_trial(size, true, INPUTS_UNIFORM, 9);
    struct trial full = half_trial(size, false, INPUTS_UNIFORM, 9);
    cr_assert(trial_run(&masked, &kernel->about).status == VERDICT_PASS);
    cr_assert(trial_run(&full, &kernel->about).status == VERDICT_PASS);
    const uint16_t *O = masked.host[O_AT], *O_full = full.host[O_AT];
    const float *LSE = masked.host[LSE_AT], *LSE_full = full.host[LSE_AT];
    const size_t rows = (size_t)(size.batch * size.heads * size.seq_q),
                 cols = (size_t)size.head_dim;
    *apart = 0;
    *LSE_apart = 0.0f;
    for (size_t row = 0; row < rows; row++) {
        if (row % (size_t)size.seq_q < first_row)
            continue;
        *LSE_apart = fmaxf(*LSE_apart, fabsf(LSE[row] - LSE_full[row]));
        for (size_t c = 0; c < cols; c++) {
            const int difference = halves_apart(O[row * cols + c], O_full[row * cols + c]);
            *apart = difference > *apart ? difference : *apart;
        }
    }
    trial_destroy(&masked);
    trial_destroy(&full);
}

/* Aligned to the bottom right, the mask hides nothing from the last query: one neighbouring half at
 * most, which two compilations of the same sums may make of it. V is positive here: nothing
 * cancels. */
TEST(exact, a_mask_that_hides_nothing)
{
    static const struct size single[] = {{2, 3, 1, 1, 300, 64}, {1, 2, 2, 1, 129, 128}};
    static const struct size last[] = {{1, 2, 1, 70, 70, 64}, {1, 1, 1, 33, 200, 128}};
    for (const struct attention_kernel *kernel = causal_half_kernels; kernel->about.name;
         kernel++) {
        const char *name = kernel->about.name;
        int apart;
        float LSE_apart;
        if (!runs_here(kernel))
            continue;
        for (size_t i = 0; i < 2; i++) {
            mask_on_and_off(single[i], kernel, 0, &apart, &LSE_apart);
            cr_expect(apart <= 1 && LSE_apart < 1e-5f, "%s: one query, case %zu: %d halves, LSE %g",
                      name, i, apart, (double)LSE_apart);
            mask_on_and_off(last[i], kernel, (size_t)last[i].seq_q - 1, &apart, &LSE_apart);
            cr_expect(apart <= 1 && LSE_apart < 1e-5f,
                      "%s: last query, case %zu: %d halves, LSE %g", name, i, apart,
                      (double)LSE_apart);
            mask_on_and_off(last[i], kernel, 0, &apart, &LSE_apart);
            cr_expect(apart > 1, "%s: case %zu: the mask changes nothing at all", name, i);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* The same arithmetic on the host, in any mixture of precisions */

enum precision { HALF, SINGLE, DOUBLE };

static double rounded(double x, enum precision precision)
{
    int exponent;
    if (precision == DOUBLE || x == 0.0 || !isfinite(x))
        return x;
    if (precision == SINGLE)
        return (float)x;
    frexp(x, &exponent); /* 11 bits, and below 2^-14 the spacing of 2^-24 */
    const double unit = ldexp(1.0, (exponent < -13 ? -13 : exponent) - 11);
    const double nearest = nearbyint(x / unit) * unit;
    return fabs(nearest) > 65504.0 ? copysign(INFINITY, x) : nearest;
}

/* In what precision each is kept; everything else is done in `wide`. */
struct arithmetic {
    const char *name;
    enum precision wide, S, P, l, acc, O;
};

static const struct arithmetic as_the_kernels = {
    "P and O half, the rest float, as the kernels", SINGLE, SINGLE, HALF, SINGLE, SINGLE, HALF};
static const struct arithmetic in_double = {"double", DOUBLE, DOUBLE, DOUBLE,
                                            DOUBLE,   DOUBLE, DOUBLE};

/* Row `row` of O, over all batches and heads, in tiles of 64 keys: the algorithm of every rung. How
 * wide the tiles are decides which roundings happen, hardly how large they are. */
static void attend(const struct arithmetic *arithmetic, const struct attention *call,
                   const uint16_t *Q, const uint16_t *K, const uint16_t *V, size_t row, double *O)
{
    enum { TILE = 64 };
    const enum precision wide = arithmetic->wide;
    const size_t head_dim = (size_t)call->head_dim, i = row % (size_t)call->seq_q;
    const size_t kv_head = row / (size_t)call->seq_q / (size_t)(call->heads / call->kv_heads);
    const long hidden = call->causal ? call->seq_q - 1 - (long)i : 0;
    const long visible = call->seq_kv > hidden ? call->seq_kv - hidden : 0;
    const double log2_e = 1.4426950408889634;
    const double scale_log2 = rounded(call->scale * rounded(log2_e, wide), wide);
    double m = -INFINITY, l = 0.0, S[TILE];

    Q += row * head_dim;
    K += kv_head * (size_t)call->seq_kv * head_dim;
    V += kv_head * (size_t)call->seq_kv * head_dim;
    for (size_t c = 0; c < head_dim; c++)
        O[c] = 0.0;

    for (long k0 = 0; k0 < visible; k0 += TILE) {
        const long keys = visible - k0 < TILE ? visible - k0 : TILE;
        double m_new = m;
        for (long j = 0; j < keys; j++) {
            double s = 0.0;
            for (size_t k = 0; k < head_dim; k++)
                s = rounded(s + tensor_element(Q, TENSOR_F16, k) *
                                    tensor_element(K, TENSOR_F16, (size_t)(k0 + j) * head_dim + k),
                            wide);
            S[j] = rounded(s, arithmetic->S);
            m_new = fmax(m_new, S[j]);
        }
        const double alpha = m == -INFINITY ? 0.0 : rounded(exp2((m - m_new) * scale_log2), wide);
        m = m_new;
        l = rounded(l * alpha, arithmetic->l);
        for (size_t c = 0; c < head_dim; c++)
            O[c] = rounded(O[c] * alpha, arithmetic->acc);
        for (long j = 0; j < keys; j++) {
            const double p = rounded(exp2(rounded((S[j] - m) * scale_log2, wide)), wide);
            const double P = rounded(p, arithmetic->P);
            l = rounded(l + p, arithmetic->l);
            for (size_t c = 0; c < head_dim; c++)
                O[c] = rounded(
                    O[c] + P * tensor_element(V, TENSOR_F16, (size_t)(k0 + j) * head_dim + c),
                    arithmetic->acc);
        }
    }
    for (size_t c = 0; c < head_dim; c++)
        O[c] = rounded(l == 0.0 ? 0.0 : O[c] / l, arithmetic->O);
}

/* max |O - value| of some rows of the trial's inputs computed on the host; *largest is max
 * |value|. */
static double host_error(const struct arithmetic *arithmetic, const struct trial *trial,
                         const struct attention *call, size_t rows, double *largest)
{
    double error = 0.0, O[128], value[128];
    *largest = 0.0;
    for (size_t row = 0; row < rows; row++) {
        attend(&in_double, call, trial->host[Q_AT], trial->host[K_AT], trial->host[V_AT], row,
               value);
        attend(arithmetic, call, trial->host[Q_AT], trial->host[K_AT], trial->host[V_AT], row, O);
        for (int c = 0; c < call->head_dim; c++) {
            const double distance = fabs(O[c] - value[c]);
            error = distance <= error ? error : distance; /* NaN is an error too */
            *largest = fmax(*largest, fabs(value[c]));
        }
    }
    return error;
}

/* max |O - value| of a kernel's last run in this trial, all rows. */
static double kernel_error(const struct trial *trial, const struct attention *call)
{
    const size_t rows = trial->tensors[O_AT].rows;
    double error = 0.0, value[128];
    for (size_t row = 0; row < rows; row++) {
        attend(&in_double, call, trial->host[Q_AT], trial->host[K_AT], trial->host[V_AT], row,
               value);
        for (size_t c = 0; c < (size_t)call->head_dim; c++) {
            const double O =
                tensor_element(trial->host[O_AT], TENSOR_F16, row * (size_t)call->head_dim + c);
            const double distance = fabs(O - value[c]);
            error = distance <= error ? error : distance;
        }
    }
    return error;
}

/* Runs a kernel and brings O to the host. */
static cudaError_t run_and_fetch(const struct attention_kernel *kernel, const struct trial *trial,
                                 const struct attention *call)
{
    const cudaError_t status = run_once(kernel, *call);
    return status == cudaSuccess ? device_buffer_download(&trial->device[O_AT], trial->host[O_AT])
                                 : status;
}

/* Every rung that runs here has at most twice the error of the host's arithmetic on the same
 * inputs. */
static void expect_errors_like_the_host(const struct trial *trial, const struct attention *call,
                                        const char *what)
{
    double largest;
    const double host =
        host_error(&as_the_kernels, trial, call, trial->tensors[O_AT].rows, &largest);
    cr_assert(host > 0.0 && host < 0.01 * largest, "%s: the host's error is %g of %g", what, host,
              largest);
    for (const struct attention_kernel *kernel = causal_half_kernels; kernel->about.name;
         kernel++) {
        if (!runs_here(kernel))
            continue;
        cr_assert(run_and_fetch(kernel, trial, call) == cudaSuccess, "%s: %s", kernel->about.name,
                  refusal());
        const double error = kernel_error(trial, call);
        cr_expect(error <= 2.0 * host,
                  "%s: %s: error %.3g, %.3g in the same arithmetic on the host", kernel->about.name,
                  what, error, host);
    }
}

TEST(accuracy, no_worse_than_the_same_arithmetic)
{
    static const enum input_kind kinds[] = {INPUTS_NORMAL, INPUTS_UNIFORM, INPUTS_ASCENDING,
                                            INPUTS_OUTLIERS};
    static const struct size size[] = {{1, 2, 1, 40, 200, 64}, {1, 1, 1, 70, 70, 128}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
            struct trial trial = half_trial(size[i], i == 1, kinds[k], 11 + k);
            const struct attention call = call_on(&trial);
            expect_errors_like_the_host(&trial, &call, input_kind_name(kinds[k]));
            trial_destroy(&trial);
        }
}

/* Elements of a magnitude from [16, 32), or a power of two below that, one sign for a row. */
static void fill_one_sided(uint16_t *rows, size_t count, size_t head_dim, unsigned lowest_exponent)
{
    for (size_t row = 0; row < count; row++) {
        const unsigned sign = (unsigned)(input_bits(1, 0, row) & 1) << 15;
        const unsigned exponent =
            lowest_exponent + (unsigned)(input_bits(1, 1, row) % (20 - lowest_exponent));
        for (size_t c = 0; c < head_dim; c++)
            rows[row * head_dim + c] =
                (uint16_t)(sign | exponent << 10 |
                           (unsigned)(input_bits(1, 2, row * head_dim + c) & 0x3ff));
    }
}

/*
 * Unscaled scores up to and beyond the largest half, 65504, with a scale that makes a smooth
 * softmax of them: as accurate as any other. Kept as halves they would be infinite.
 */
TEST(accuracy, scores_near_and_beyond_the_largest_half)
{
    static const int head_dim[] = {64, 128};
    for (int i = 0; i < 2; i++) {
        const struct size size = {1, 1, 1, 40, 150, head_dim[i]};
        struct trial trial = half_trial(size, true, INPUTS_NORMAL, 13);
        struct attention call = call_on(&trial);
        const float usual_scale = call.scale;
        fill_one_sided(trial.host[Q_AT], 40, (size_t)head_dim[i], 19);
        fill_one_sided(trial.host[K_AT], 150, (size_t)head_dim[i], 14);
        cr_assert(device_buffer_upload(&trial.device[Q_AT], trial.host[Q_AT]) == cudaSuccess);
        cr_assert(device_buffer_upload(&trial.device[K_AT], trial.host[K_AT]) == cudaSuccess);
        call.scale = 1.0f / 16384.0f;
        expect_errors_like_the_host(&trial, &call, i == 0 ? "to 40000" : "beyond 65504");

        const struct arithmetic half_scores = {"S half", SINGLE, HALF, HALF, SINGLE, SINGLE, HALF};
        double largest;
        const double host = host_error(&as_the_kernels, &trial, &call, 40, &largest);
        const double spoilt = host_error(&half_scores, &trial, &call, 40, &largest);
        cr_expect(i == 0 ? spoilt > host : !(spoilt <= 1.0), "S in half: error %g, in float %g",
                  spoilt, host);

        /* With the usual scale one key takes all; what matters is that a finite row comes out. */
        call.scale = usual_scale;
        for (const struct attention_kernel *kernel = causal_half_kernels; kernel->about.name;
             kernel++) {
            if (!runs_here(kernel))
                continue;
            cr_assert(run_and_fetch(kernel, &trial, &call) == cudaSuccess, "%s: %s",
                      kernel->about.name, refusal());
            for (size_t e = 0; e < trial.tensors[O_AT].rows * trial.tensors[O_AT].cols; e++)
                cr_assert(fabs(tensor_element(trial.host[O_AT], TENSOR_F16, e)) < 6.0,
                          "%s: head_dim %d, element %zu is %g", kernel->about.name, head_dim[i], e,
                          tensor_element(trial.host[O_AT], TENSOR_F16, e));
        }
        trial_destroy(&trial);
    }
}

/* The lesson's table: what each precision costs. `--filter accuracy/what_each_precision_costs`
 * prints it. */
TEST(accuracy, what_each_precision_costs)
{
    static const struct arithmetic arithmetics[] = {
        {"everything float", SINGLE, SINGLE, SINGLE, SINGLE, SINGLE, SINGLE},
        {"O half", SINGLE, SINGLE, SINGLE, SINGLE, SINGLE, HALF},
        {"P and O half, the rest float, as the kernels", SINGLE, SINGLE, HALF, SINGLE, SINGLE,
         HALF},
        {"S half too", SINGLE, HALF, HALF, SINGLE, SINGLE, HALF},
        {"l half too", SINGLE, SINGLE, HALF, HALF, SINGLE, HALF},
        {"the sum of P V half too", SINGLE, SINGLE, HALF, SINGLE, HALF, HALF},
    };
    enum {
        ARITHMETICS = sizeof arithmetics / sizeof *arithmetics,
        CASES = 4,
        KERNELS = 2,
        ROWS = 4
    };
    static const struct {
        enum input_kind kind;
        int keys;
    } cases[CASES] = {
        {INPUTS_NORMAL, 256}, {INPUTS_NORMAL, 8192}, {INPUTS_UNIFORM, 256}, {INPUTS_UNIFORM, 8192}};
    double error[ARITHMETICS][CASES];

    for (int i = 0; i < CASES; i++) {
        const struct size size = {1, 1, 1, ROWS, cases[i].keys, 64};
        struct trial trial = half_trial(size, false, cases[i].kind, 17);
        const struct attention call = call_on(&trial);
        for (int a = 0; a < ARITHMETICS; a++) {
            double largest;
            error[a][i] = host_error(&arithmetics[a], &trial, &call, ROWS, &largest);
            error[a][i] /= largest;
        }
        trial_destroy(&trial);
    }

    fprintf(stderr, "max |O - double| / max |O|, head_dim 64\n%-46s", "");
    for (int i = 0; i < CASES; i++)
        fprintf(stderr, " %7s %4d", input_kind_name(cases[i].kind), cases[i].keys);
    for (int a = 0; a < ARITHMETICS; a++) {
        fprintf(stderr, "\n%-46s", arithmetics[a].name);
        for (int i = 0; i < CASES; i++)
            fprintf(stderr, " %12.1e", error[a][i]);
    }
    fprintf(stderr, "\n");

    for (int i = 0; i < CASES; i++)
        cr_expect(error[0][i] < 0.02 * error[KERNELS][i], "case %d: float is not much better", i);
    cr_expect(error[4][3] > 0.3, "8192 weights of one size: a sum in half stops at 2048 of them");
    cr_expect(error[5][3] > 0.3, "and so does the sum of P V");
    cr_expect(error[4][3] > 100.0 * error[KERNELS][3] && error[5][3] > 100.0 * error[KERNELS][3],
              "l or the accumulator in half is no worse");
}

/* ---------------------------------------------------------------------------------------------- */
/* Through the C functions: what the command line cannot ask for */

TEST(contract, LSE_is_optional)
{
    check_LSE_is_optional(causal_half_kernels, TENSOR_F16);
}

TEST(contract, no_keys)
{
    check_no_keys(causal_half_kernels, TENSOR_F16);
}

TEST(contract, refused_calls)
{
    check_refused_calls(causal_half_kernels, TENSOR_F16);
}

TEST(contract, refused_pointers)
{
    check_refused_pointers(causal_half_kernels, in_half((struct size){1, 2, 1, 9, 70, 16}, false));
}

/* All but `half` copy 16 bytes at a time. */
TEST(contract, refused_head_dims)
{
    static const int head_dim[] = {1, 4, 12, 63, 65, 100, 127};
    for (const struct attention_kernel *kernel = causal_half_kernels + 1; kernel->about.name;
         kernel++) {
        if (!runs_here(kernel))
            continue;
        for (size_t i = 0; i < sizeof head_dim / sizeof *head_dim; i++) {
            const long long sizes[MAX_SIZES] =
                SIZES(in_half(((struct size){1, 1, 1, 5, 7, head_dim[i]}), true));
            char words[80];
            snprintf(words, sizeof words,
                     "head_dim is %d; this kernel takes multiples of 8 up to 128", head_dim[i]);
            ladder_refuses(&attention_problem, causal_half_kernels, kernel->about.name, sizes,
                           words);
        }
    }
}

TEST(contract, refused_alignment)
{
    struct trial trial = half_trial((struct size){1, 1, 1, 9, 70, 64}, false, INPUTS_NORMAL, 5);
    const struct attention good = call_on(&trial);
    for (int t = Q_AT; t <= O_AT; t++) {
        char words[80];
        const struct attention call = with_array(good, t, (char *)trial.device[t].data + 8);
        snprintf(words, sizeof words, "%s is %p; it must be aligned to 16 bytes",
                 trial.tensors[t].name, (void *)((char *)trial.device[t].data + 8));
        expect_refused(causal_half_kernels + 1, &call, words);
    }
    trial_destroy(&trial);
}

/* 0 makes every key weigh the same, a negative scale prefers the least similar; most rungs refuse
 * both. */
TEST(contract, scales)
{
    struct trial trial = half_trial((struct size){1, 1, 1, 9, 150, 16}, true, INPUTS_NORMAL, 5);
    struct attention call = call_on(&trial);
    call.scale = 3.0f;
    expect_errors_like_the_host(&trial, &call, "scale 3");
    for (int i = 0; i < 2; i++) {
        call.scale = i == 0 ? 0.0f : -0.5f;
        expect_refused(causal_half_kernels + 1, &call, "takes positive scales");
        cr_expect(run_and_fetch(causal_half_kernels, &trial, &call) == cudaSuccess);
        cr_expect(kernel_error(&trial, &call) < 2e-3, "half: scale %g: error %g",
                  (double)call.scale, kernel_error(&trial, &call));
    }
    trial_destroy(&trial);
}

/* ---------------------------------------------------------------------------------------------- */
/* Devices that are too old, or too new: on a GPU there is only the one */

static void expect_skips(int architecture)
{
    char text[16];
    snprintf(text, sizeof text, "%d", architecture);
    setenv("SIMT_ARCH", text, 1);
    if (backend_architecture() != architecture) {
        fprintf(stderr, "skipped: this device is sm_%d and will not be another\n",
                backend_architecture());
        return;
    }
    struct trial trial = half_trial((struct size){1, 1, 1, 9, 17, 16}, true, INPUTS_NORMAL, 1);
    for (const struct attention_kernel *kernel = causal_half_kernels; kernel->about.name;
         kernel++) {
        const char *name = kernel->about.name, *needs = kernel->about.architecture;
        const int first = needs ? atoi(needs + strlen("sm_")) : 0;
        const bool alone = needs && strchr(needs, 'a') != NULL;
        const bool runs = alone ? architecture == first : architecture >= first;
        const struct verdict verdict = trial_run(&trial, &kernel->about);
        cr_expect(verdict.status == (runs ? VERDICT_PASS : VERDICT_SKIPPED),
                  "%s on sm_%d: status %d, %s", name, architecture, (int)verdict.status,
                  verdict.reason);
        char words[64];
        snprintf(words, sizeof words, "(this device is sm_%d)", architecture);
        cr_expect(runs || (strstr(verdict.reason, needs) && strstr(verdict.reason, words)),
                  "%s on sm_%d: '%s'", name, architecture, verdict.reason);
    }
    trial_destroy(&trial);
}

TEST(architecture, volta)
{
    expect_skips(70);
}

TEST(architecture, turing)
{
    expect_skips(75);
}

TEST(architecture, ada)
{
    expect_skips(89);
}

TEST(architecture, blackwell)
{
    expect_skips(100);
}

/* ---------------------------------------------------------------------------------------------- */
/* What the lesson says about traffic */

TEST(counters, costs)
{
    static const struct size counted[] = {
        {1, 2, 1, 64, 64, 16, false, TENSOR_F16},    {1, 2, 1, 192, 256, 64, true, TENSOR_F16},
        {1, 1, 1, 128, 128, 128, false, TENSOR_F16}, {1, 2, 1, 150, 141, 40, true, TENSOR_F16},
        {1, 1, 1, 300, 7, 72, true, TENSOR_F16},     {1, 1, 1, 3, 700, 64, true, TENSOR_F16},
        {1, 1, 1, 200, 600, 64, true, TENSOR_F16},
    };
    check_costs(causal_half_kernels, counted, sizeof counted / sizeof *counted);
}

/* The producers of `persistent` draw each of the tiles once, beyond each block's first. */
TEST(counters, atomics)
{
    const struct size size = {1, 2, 1, 192, 256, 64};
    for (const struct attention_kernel *kernel = causal_half_kernels; kernel->about.name;
         kernel++) {
        struct counters counters;
        if (!count(kernel->about.name, size, false, &counters))
            continue;
        const bool draws = strcmp(kernel->about.name, "persistent") == 0;
        cr_expect(counters.atomics == (unsigned long long)(draws ? 2 * tiles(192, 192) : 0),
                  "%s: %llu atomics", kernel->about.name, counters.atomics);
    }
}

/* Square, T tiles of BM queries: T (T + 1) / 2 of T² squares of BM x BM are loaded, (T + 1) / 2T of
 * the keys. */
TEST(counters, causal_is_half_the_work)
{
    for (const struct attention_kernel *kernel = causal_half_kernels; kernel->about.name;
         kernel++) {
        const char *name = kernel->about.name;
        struct counters causal, full;
        const long long T = 3, seq = T * kernel->Br[1], d = 72;
        const struct size size = {1, 1, 1, seq, seq, d};
        if (!count(name, size, true, &causal) || !count(name, size, false, &full))
            continue;
        const unsigned long long query_bytes = (unsigned long long)(2 * seq * d);
        const unsigned long long keys_causal = causal.global_load_bytes - query_bytes;
        const unsigned long long keys_full = full.global_load_bytes - query_bytes;
        cr_expect(keys_full == (unsigned long long)(2 * 2 * T * seq * d), "%s: %llu bytes of keys",
                  name, keys_full);
        cr_expect(2 * T * keys_causal == (T + 1) * keys_full, "%s: %llu bytes of keys of %llu",
                  name, keys_causal, keys_full);
    }
}

/* Padding or swizzle: nobody waits for a bank. wmma is left out, its fragments' order being
 * nobody's business. */
TEST(counters, no_bank_conflicts)
{
    static const int head_dim[] = {64, 128};
    for (const struct attention_kernel *kernel = causal_half_kernels; kernel->about.name;
         kernel++) {
        const char *name = kernel->about.name;
        for (int i = 0; i < 2; i++) {
            struct counters counters;
            if (strcmp(name, "wmma") == 0 ||
                !count(name, (struct size){1, 1, 1, 70, 70, head_dim[i]}, true, &counters))
                continue;
            cr_expect(counters.shared_wavefronts == counters.shared_wavefronts_ideal,
                      "%s, head_dim %d: %llu wavefronts, ideally %llu", name, head_dim[i],
                      counters.shared_wavefronts, counters.shared_wavefronts_ideal);
        }
    }
}

/* Barriers of the whole block: two a tile, then one, then none but that which begins. */
TEST(counters, barriers)
{
    static const struct {
        const char *name;
        int fixed, per_tile;
    } expected[] = {{"half", 0, 2}, {"wmma", 0, 2}, {"mma_pipelined", 1, 1}, {"tma_wgmma", 1, 1}};
    const struct size size = {1, 1, 1, 64, 256, 64};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct counters counters;
        if (!count(expected[i].name, size, false, &counters))
            continue;
        const struct attention_kernel *kernel = (const struct attention_kernel *)ladder_find(
            &attention_problem, causal_half_kernels, expected[i].name);
        const long long barriers =
            expected[i].fixed + expected[i].per_tile * tiles(256, kernel->Bc[0]);
        cr_expect(counters.barriers == (unsigned long long)barriers,
                  "%s: %llu barriers, %lld expected", expected[i].name, counters.barriers,
                  barriers);
    }
}
