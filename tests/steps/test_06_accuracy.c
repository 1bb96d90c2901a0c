/* Step 06: how accurate half precision is, by the same arithmetic on the host. */
#include "attention_numbers.h"
#include "half_cases.h"

enum precision { HALF, BFLOAT16, SINGLE, DOUBLE };

static double rounded(double x, enum precision precision)
{
    int exponent;
    if (precision == DOUBLE || x == 0.0 || !isfinite(x))
        return x;
    if (precision == SINGLE)
        return (float)x;
    /* A half has 11 bits; below 2^-14 the spacing is 2^-24. A bfloat16 has 8, and a float's range.
     */
    frexp(x, &exponent);
    const int bits = precision == HALF ? 11 : 8, least = precision == HALF ? -13 : -125;
    const double unit = ldexp(1.0, (exponent < least ? least : exponent) - bits);
    const double nearest = nearbyint(x / unit) * unit;
    if (precision == BFLOAT16)
        return (float)nearest;
    return fabs(nearest) > 65504.0 ? copysign(INFINITY, x) : nearest;
}

/* Each is kept in its own precision; everything else is done in `wide`. */
struct arithmetic {
    const char *name;
    enum precision wide, S, P, l, acc, O;
};

static const struct arithmetic as_the_kernels = {
    "P and O half, the rest float, as the kernels", SINGLE, SINGLE, HALF, SINGLE, SINGLE, HALF};
static const struct arithmetic as_the_kernels_in_bfloat16 = {
    "P and O bfloat16, the rest float", SINGLE, SINGLE, BFLOAT16, SINGLE, SINGLE, BFLOAT16};
static const struct arithmetic in_double = {"double", DOUBLE, DOUBLE, DOUBLE,
                                            DOUBLE,   DOUBLE, DOUBLE};

/* Computes row `row` of O, over all batches and heads, in tiles of 64 keys: the algorithm of every
 * rung. The width of the tiles decides which roundings happen, but hardly how large they are. */
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
                s = rounded(s + tensor_element(Q, call->type, k) *
                                    tensor_element(K, call->type, (size_t)(k0 + j) * head_dim + k),
                            wide);
            S[j] = rounded(s, arithmetic->S);
            m_new = fmax(m_new, S[j]);
        }
        const double rescale = m == -INFINITY ? 0.0 : rounded(exp2((m - m_new) * scale_log2), wide);
        m = m_new;
        l = rounded(l * rescale, arithmetic->l);
        for (size_t c = 0; c < head_dim; c++)
            O[c] = rounded(O[c] * rescale, arithmetic->acc);
        for (long j = 0; j < keys; j++) {
            const double p = rounded(exp2(rounded((S[j] - m) * scale_log2, wide)), wide);
            const double P = rounded(p, arithmetic->P);
            l = rounded(l + p, arithmetic->l);
            for (size_t c = 0; c < head_dim; c++)
                O[c] = rounded(
                    O[c] + P * tensor_element(V, call->type, (size_t)(k0 + j) * head_dim + c),
                    arithmetic->acc);
        }
    }
    for (size_t c = 0; c < head_dim; c++)
        O[c] = rounded(l == 0.0 ? 0.0 : O[c] / l, arithmetic->O);
}

/* Computes rows of O of a call on the trial's inputs, [rows, head_dim]. The caller frees them. */
static double *computed(const struct arithmetic *arithmetic, const struct trial *trial,
                        const struct attention *call, size_t rows)
{
    double *O = malloc(rows * (size_t)call->head_dim * sizeof *O);
    for (size_t row = 0; row < rows; row++)
        attend(arithmetic, call, trial->host[Q_AT], trial->host[K_AT], trial->host[V_AT], row,
               O + row * (size_t)call->head_dim);
    return O;
}

/* Returns max |O - value| of rows in this arithmetic on the host; *largest is max |value|. */
static double host_error(const struct arithmetic *arithmetic, const struct trial *trial,
                         const struct attention *call, size_t rows, const double *value,
                         double *largest)
{
    double *O = computed(arithmetic, trial, call, rows), error = 0.0;
    *largest = 0.0;
    for (size_t i = 0; i < rows * (size_t)call->head_dim; i++) {
        const double distance = fabs(O[i] - value[i]);
        error = distance <= error ? error : distance; /* a NaN counts as an error, too */
        *largest = fmax(*largest, fabs(value[i]));
    }
    free(O);
    return error;
}

/* Returns max |O - value| over all rows of a kernel's last run in this trial. */
static double kernel_error(const struct trial *trial, const double *value)
{
    double error = 0.0;
    for (size_t i = 0; i < trial->tensors[O_AT].rows * trial->tensors[O_AT].cols; i++) {
        const double distance =
            fabs(tensor_element(trial->host[O_AT], trial->tensors[O_AT].type, i) - value[i]);
        error = distance <= error ? error : distance;
    }
    return error;
}

/* Every rung that runs here must have at most twice the error of the host's arithmetic on the same
 * inputs. */
static void expect_errors_like_the_host(const struct trial *trial, const struct attention *call,
                                        const char *what)
{
    const size_t rows = trial->tensors[O_AT].rows;
    double largest, *value = computed(&in_double, trial, call, rows);
    const bool half = call->type == TENSOR_F16;
    const double host = host_error(half ? &as_the_kernels : &as_the_kernels_in_bfloat16, trial,
                                   call, rows, value, &largest);
    cr_assert(host > 0.0 && host < (half ? 0.01 : 0.08) * largest,
              "%s: the host's error is %g of %g", what, host, largest);
    EACH_KERNEL (kernel, half ? causal_half_kernels() : of_two_types()) {
        run_both(kernel, trial, call);
        const double error = kernel_error(trial, value);
        cr_expect(error <= 2.0 * host,
                  "%s: %s: error %.3g, %.3g in the same arithmetic on the host", kernel->about.name,
                  what, error, host);
    }
    free(value);
}

TEST(accuracy, no_worse_than_the_same_arithmetic)
{
    static const enum input_kind kinds[] = {INPUTS_NORMAL, INPUTS_UNIFORM, INPUTS_ASCENDING,
                                            INPUTS_OUTLIERS};
    static const struct size size[] = {{1, 2, 1, 40, 200, 64}, {1, 1, 1, 70, 70, 128}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
            struct size typed = in_half(size[i], i == 1);
            for (int bf16 = 0; bf16 < 2; bf16++) {
                typed.type = bf16 ? TENSOR_BF16 : TENSOR_F16;
                struct trial trial = trial_with(typed, kinds[k], 11 + k);
                const struct attention call = call_on(&trial);
                expect_errors_like_the_host(&trial, &call, input_kind_name(kinds[k]));
                trial_destroy(&trial);
            }
        }
}

/* Fills rows with magnitudes from [16, 32), or from a power of two below that, with one sign per
 * row. */
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
 * Unscaled scores go up to the largest half, 65504, and beyond, with a scale that makes a smooth
 * softmax of them. The result must be as accurate as any other. Kept as halves the scores would be
 * infinite.
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
        double largest, *value = computed(&in_double, &trial, &call, 40);
        const double host = host_error(&as_the_kernels, &trial, &call, 40, value, &largest);
        const double spoilt = host_error(&half_scores, &trial, &call, 40, value, &largest);
        free(value);
        cr_expect(i == 0 ? spoilt > host : !(spoilt <= 1.0), "S in half: error %g, in float %g",
                  spoilt, host);

        /* With the usual scale one key takes all the weight. What matters is that the row is
         * finite. */
        call.scale = usual_scale;
        EACH_KERNEL (kernel, causal_half_kernels()) {
            run_both(kernel, &trial, &call);
            for (size_t e = 0; e < trial.tensors[O_AT].rows * trial.tensors[O_AT].cols; e++)
                cr_assert(fabs(tensor_element(trial.host[O_AT], TENSOR_F16, e)) < 6.0,
                          "%s: head_dim %d, element %zu is %g", kernel->about.name, head_dim[i], e,
                          tensor_element(trial.host[O_AT], TENSOR_F16, e));
        }
        trial_destroy(&trial);
    }
}

/*
 * V lies at the end of the range. Where the scores are equal, P and l are exact, and O is V. Where
 * three of four are -0.672, their weights round up: O is at most V (1 + 2^-11), which from 65472 on
 * may be more than a half holds (docs/mathematics.md works it out).
 */
TEST(accuracy, values_at_the_end_of_the_range)
{
    static const struct {
        double score, value;
        bool may_overflow;
    } cases[] = {
        {0.0, 65504.0, false}, {-0.67236328125, 65472.0, false}, {-0.67236328125, 65504.0, true}};
    static const struct size sizes[] = {
        {1, 1, 1, 4, 4, 64}, {1, 1, 1, 70, 600, 64}, {1, 1, 1, 70, 600, 128}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct trial trial = half_trial(sizes[i], false, INPUTS_CONSTANT, 1);
        struct attention call = call_on(&trial);
        const size_t head_dim = (size_t)sizes[i].head_dim;
        call.scale = 1.0f;
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            for (int t = Q_AT; t <= V_AT; t++)
                for (size_t e = 0; e < trial.tensors[t].rows * head_dim; e++)
                    tensor_store(trial.host[t], TENSOR_F16, e,
                                 t == V_AT              ? cases[k].value
                                 : e % head_dim > 0     ? 0.0
                                 : t == Q_AT            ? 1.0
                                 : e / head_dim % 4 > 0 ? cases[k].score
                                                        : 0.0);
            upload(&trial);
            EACH_KERNEL (kernel, causal_half_kernels()) {
                run_both(kernel, &trial, &call);
                for (size_t e = 0; e < trial.tensors[O_AT].rows * head_dim; e++) {
                    const double O = O_of(&trial, e / head_dim, e % head_dim);
                    cr_assert(O == cases[k].value || (cases[k].score < 0.0 && O == 65504.0) ||
                                  (cases[k].may_overflow && O == INFINITY),
                              "%s: V = %g, scores 0 and %g: element %zu is %g", kernel->about.name,
                              cases[k].value, cases[k].score, e, O);
                }
            }
        }
        trial_destroy(&trial);
    }
}

/* The lesson's table says what each precision costs. `--filter accuracy/what_each_precision_costs`
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
        double largest, *value = computed(&in_double, &trial, &call, ROWS);
        for (int a = 0; a < ARITHMETICS; a++) {
            error[a][i] = host_error(&arithmetics[a], &trial, &call, ROWS, value, &largest);
            error[a][i] /= largest;
        }
        free(value);
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
/* Inputs that are not finite, and finite ones that overflow */

enum { QUERIES = 40, KEYS = 150, FEATURES = 64 };

/* Only `half` takes scales that are not positive. */
CALL_TEST(values, any_scale, check_any_scale(causal_half_kernels(), TENSOR_F16))

/* Only the last query sees the last key. */
CALL_TEST(values, a_NaN_score_makes_its_row_NaN,
          check_nan_scores(causal_half_kernels(),
                           in_half((struct size){1, 1, 1, QUERIES, KEYS, FEATURES}, true)))
CALL_TEST(values, a_NaN_score_makes_its_row_NaN_in_bfloat16,
          check_nan_scores(of_two_types(),
                           (struct size){1, 1, 1, QUERIES, KEYS, FEATURES, true, TENSOR_BF16}))

/* The first key, which every query sees, has all the weight, or no key has any. */
static void expect_one_key(enum tensor_type type, struct scores scores, double O, double LSE)
{
    scores.count = 1;
    expect_scores(causal_half_kernels(),
                  (struct size){1, 1, 1, QUERIES, KEYS, FEATURES, true, type}, scores, O, LSE);
}

TEST(values, scores_far_below_zero)
{
    const struct scores above = {"scale 1000", 1000.0f, 1.0, -20.0, -30.0};
    const struct scores below = {"scale -1000", -1000.0f, 1.0, 20.0, 30.0};
    expect_one_key(TENSOR_F16, above, 2.0, -20000.0);
    expect_one_key(TENSOR_F16, below, 2.0, -20000.0);
    expect_one_key(TENSOR_BF16, above, 2.0, -20000.0);
}

/* Finite inputs have infinite scores: -inf has no weight, and inf is not defined, so it makes
 * NaN. */
TEST(values, scores_that_overflow)
{
    static const struct {
        enum tensor_type type;
        float scale;
        double query, large;
    } cases[] = {{TENSOR_F16, 1e36f, 1.0, 1000.0}, {TENSOR_BF16, 1.0f, 0x1p100, 0x1p100}};
    for (int i = 0; i < 2; i++) {
        const float scale = cases[i].scale;
        const double query = cases[i].query, large = cases[i].large;
        expect_one_key(cases[i].type, (struct scores){"all overflow", scale, query, -large, -large},
                       0.0, (double)-INFINITY);
        expect_one_key(cases[i].type, (struct scores){"all but one", scale, query, 0.0, -large},
                       2.0, 0.0);
        expect_one_key(cases[i].type, (struct scores){"one upwards", scale, query, large, -large},
                       (double)NAN, (double)NAN);
    }
}

/*
 * P is rounded and l is not, so O may be off by a factor of 1 + 2^-11. Up to |V| = 65472 it stays
 * below 65520, from which on a float rounds to an infinite half. These scores round three of every
 * four P up.
 */
TEST(values, large_values_stay_finite)
{
    const double largest = 65472.0;
    struct trial trial =
        half_trial((struct size){1, 1, 1, QUERIES, 4, FEATURES}, false, INPUTS_NORMAL, 24);
    struct attention call = call_on(&trial);
    call.scale = 1.0f;
    fill(&trial, Q_AT, 0.0);
    fill(&trial, K_AT, 0.0);
    fill(&trial, V_AT, largest);
    for (size_t row = 0; row < QUERIES; row++)
        tensor_store(trial.host[Q_AT], TENSOR_F16, row * FEATURES, 1.0);
    for (size_t key = 1; key < 4; key++)
        tensor_store(trial.host[K_AT], TENSOR_F16, key * FEATURES, -0.67236328);
    upload(&trial);
    EACH_KERNEL (kernel, causal_half_kernels()) {
        run_both(kernel, &trial, &call);
        for (size_t row = 0; row < QUERIES; row++)
            cr_expect(fabs(O_of(&trial, row, 5) - largest) <= 32.0, "%s: O[%zu] is %g",
                      kernel->about.name, row, O_of(&trial, row, 5));
    }
    trial_destroy(&trial);
}
