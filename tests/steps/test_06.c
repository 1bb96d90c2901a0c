/* Step 06: FlashAttention-2 in half precision, causal or not, from CUDA cores to Hopper. */
#include "attention_numbers.h"
#include "half_cases.h"

static void check(struct size size, bool causal, enum input_kind kind, uint64_t seed)
{
    check_sizes(causal_half_kernels(), in_half(size, causal), kind, seed, 0);
}

static bool count(const char *name, struct size size, bool causal, struct counters *counters)
{
    return count_of(causal_half_kernels(), name, in_half(size, causal), counters);
}

/* ---------------------------------------------------------------------------------------------- */
/* Every rung takes every shape. Br is 64, 128 or 192 and Bc 32, 48, 64 or 128. */

CALL_TEST(cases, part_1, ladder_cases(&attention_problem, causal_half_kernels(), 0, 8))
CALL_TEST(cases, part_2, ladder_cases(&attention_problem, causal_half_kernels(), 1, 8))
CALL_TEST(cases, part_3, ladder_cases(&attention_problem, causal_half_kernels(), 2, 8))
CALL_TEST(cases, part_4, ladder_cases(&attention_problem, causal_half_kernels(), 3, 8))
CALL_TEST(cases, part_5, ladder_cases(&attention_problem, causal_half_kernels(), 4, 8))
CALL_TEST(cases, part_6, ladder_cases(&attention_problem, causal_half_kernels(), 5, 8))
CALL_TEST(cases, part_7, ladder_cases(&attention_problem, causal_half_kernels(), 6, 8))
CALL_TEST(cases, part_8, ladder_cases(&attention_problem, causal_half_kernels(), 7, 8))
CALL_TEST(cases, own, ladder_own_cases(&attention_problem, causal_half_kernels()))
CALL_TEST(shapes, failed_once, ladder_failed_once(&step_06, &attention_problem))

CALL_TEST(shapes, more_than_65535_blocks, check_many_blocks(causal_half_kernels(), TENSOR_F16))
CALL_TEST(shapes, past_2_to_the_31_elements,
          check_past_2_to_the_31_elements(causal_half_kernels(), TENSOR_F16))

static int multiprocessors_here(void)
{
    int count;
    cr_assert(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess);
    return count;
}

/* Checks the rungs whose blocks stay for more than one tile. */
static void check_persistent(struct size size, bool causal, uint64_t seed)
{
    const void *persistent =
        ladder_find(&attention_problem, causal_half_kernels(), "persistent_blocks");
    check_sizes(persistent, in_half(size, causal), INPUTS_NORMAL, seed, 0);
}

/* There are more tiles than resident blocks, so the rung that draws its tiles draws some. */
TEST(shapes, more_tiles_than_multiprocessors)
{
    const int multiprocessors = multiprocessors_here();
    check_persistent((struct size){1, multiprocessors + 3, 1, 3, 9, 64}, true, 161);
    check_persistent((struct size){1, multiprocessors + 1, 1, 3, 9, 128}, false, 162);
}

/* A block takes several tiles, and kv head, mask and rows change from one to the next. */
TEST(shapes, tiles_that_change)
{
    const int multiprocessors = multiprocessors_here();
    const long long heads = 2 * multiprocessors + 2;
    check_persistent((struct size){1, heads, heads, 3, 9, 64}, false, 163);
    check_persistent((struct size){1, heads, heads / 2, 3, 200, 72}, true, 164);
    check_persistent((struct size){1, multiprocessors + 1, multiprocessors + 1, 200, 200, 64}, true,
                     165);
}

/* multicast and lazy_rescale share loads in pairs of blocks for full attention with more than 512
 * keys, a head_dim above 64 and an even number of tiles of 128 queries. There the rungs after them
 * run lazy_rescale. */
static const struct attention_kernel *pairs(void)
{
    static struct attention_kernel table[3];
    memcpy(table, ladder_find(&attention_problem, causal_half_kernels(), "multicast"),
           2 * sizeof *table);
    return table;
}

/* Later rungs also have pairs for causal attention with more than 1024 keys. */
static const struct attention_kernel *causal_pairs(void)
{
    return (const struct attention_kernel *)ladder_find(&attention_problem, causal_half_kernels(),
                                                        "drawn_pairs");
}

/* The inputs have NaN, and scores below what half can hold. */
TEST(shapes, pairs_and_numbers)
{
    const struct size full = {1, 1, 1, 130, 530, 72, false, TENSOR_F16},
                      causal = {1, 1, 1, 130, 1100, 72, true, TENSOR_F16};
    const struct scores above = {"scale 1000", 1000.0f, 1.0, -20.0, -30.0, 1};
    check_nan_scores(pairs(), full);
    check_nan_scores(causal_pairs(), causal);
    expect_scores(pairs(), full, above, 2.0, -20000.0);
    expect_scores(causal_pairs(), causal, above, 2.0, -20000.0);
}

/* Each pair takes three tiles, and some take four, of other heads and kv heads. */
TEST(shapes, pairs_that_change)
{
    const long long heads = 2 * (3 * (multiprocessors_here() / 2) / 2 + 1);
    check_sizes(pairs(), in_half((struct size){1, heads, heads / 2, 129, 520, 72}, false),
                INPUTS_NORMAL, 241, 0);
    check_sizes(pairs(), in_half((struct size){1, heads / 2, heads / 2, 500, 520, 72}, false),
                INPUTS_OUTLIERS, 242, 0);
}

TEST(shapes, causal_pairs_that_change)
{
    const long long heads = 2 * (3 * (multiprocessors_here() / 2) / 2 + 1);
    /* With outliers a row's greatest score may be among the first keys that are processed. Then O
     * shows anything left from another tile. */
    check_sizes(causal_pairs(), in_half((struct size){1, heads, heads / 2, 256, 1152, 72}, true),
                INPUTS_OUTLIERS, 271, 0);
}

static const struct attention_kernel *skipping(void)
{
    return (const struct attention_kernel *)ladder_find(&attention_problem, causal_half_kernels(),
                                                        "skipping");
}

/* Blocks take several tiles, in some of which a warpgroup has no rows. */
TEST(shapes, skipping_tiles_that_change)
{
    const long long heads = 2 * multiprocessors_here() + 2;
    check_sizes(skipping(), in_half((struct size){1, heads, heads / 2, 60, 520, 64}, false),
                INPUTS_OUTLIERS, 321, 0);
    check_sizes(skipping(), in_half((struct size){1, heads, heads / 2, 250, 520, 64}, true),
                INPUTS_OUTLIERS, 322, 0);
}

/* Causal heads are taken in groups whose K and V have 8 MB (rows of 512 keys): here a group of 32
 * and one of 1, with two tiles each. One rung stands for all that share tile_order.cuh. */
TEST(shapes, heads_in_groups)
{
    const struct kernel *kernel = ladder_find(&attention_problem, causal_half_kernels(), "wgmma");
    if (strcmp(backend_name(), "check") == 0) {
        fprintf(stderr, "too large to watch every access: heads in groups\n");
        return;
    }
    if (!ladder_runs(kernel))
        return;
    struct trial trial =
        half_trial((struct size){1, 33, 33, 129, 512, 128}, true, INPUTS_NORMAL, 171);
    const struct verdict verdict = trial_run(&trial, kernel);
    cr_expect(verdict.status == VERDICT_PASS || verdict.status == VERDICT_SKIPPED, "wgmma: %s",
              verdict.reason);
    trial_destroy(&trial);
}

/* ---------------------------------------------------------------------------------------------- */
/* What can be said without a tolerance */

/* Counts how many halves two are apart: 0 for the same (and for the two zeros), 1 for
 * neighbours. */
static int halves_apart(uint16_t a, uint16_t b)
{
    const int place_a = a >> 15 ? -(a & 0x7fff) : a;
    const int place_b = b >> 15 ? -(b & 0x7fff) : b;
    return abs(place_a - place_b);
}

/* Where a query sees one key, O must be that key's value, to the bit. */
TEST(exact, first_row_is_the_first_value)
{
    struct trial trial = half_trial((struct size){1, 2, 2, 70, 70, 64}, true, INPUTS_NORMAL, 5);
    EACH_KERNEL (kernel, causal_half_kernels()) {
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

/* Finds how far the outputs of two trials are apart, at most, from row first_row of each head
 * on. */
static void largest_differences(const struct trial *masked, const struct trial *full,
                                size_t first_row, int *apart, float *LSE_apart)
{
    const uint16_t *O = masked->host[O_AT], *O_full = full->host[O_AT];
    const float *LSE = masked->host[LSE_AT], *LSE_full = full->host[LSE_AT];
    const size_t rows = masked->tensors[O_AT].rows, cols = masked->tensors[O_AT].cols;
    const size_t seq_q = (size_t)masked->sizes[ATTENTION_SEQ_Q];
    *apart = 0;
    *LSE_apart = 0.0f;
    for (size_t row = 0; row < rows; row++) {
        if (row % seq_q < first_row)
            continue;
        *LSE_apart = fmaxf(*LSE_apart, fabsf(LSE[row] - LSE_full[row]));
        for (size_t c = 0; c < cols; c++) {
            const int difference = halves_apart(O[row * cols + c], O_full[row * cols + c]);
            *apart = difference > *apart ? difference : *apart;
        }
    }
}

/* Aligned to the bottom right, the mask hides nothing from the last query. The outputs may differ
 * by one neighbouring half, because the same sums are compiled twice. V is positive here, so
 * nothing cancels. */
TEST(exact, a_mask_that_hides_nothing)
{
    static const struct size size[] = {
        {1, 2, 1, 1, 300, 64}, {1, 1, 1, 70, 70, 64}, {1, 1, 1, 33, 200, 128}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        struct trial masked = half_trial(size[i], true, INPUTS_UNIFORM, 9);
        struct trial full = half_trial(size[i], false, INPUTS_UNIFORM, 9);
        EACH_KERNEL (kernel, causal_half_kernels()) {
            const char *name = kernel->about.name;
            int apart;
            float LSE_apart;
            cr_assert(trial_run(&masked, &kernel->about).status == VERDICT_PASS);
            cr_assert(trial_run(&full, &kernel->about).status == VERDICT_PASS);
            largest_differences(&masked, &full, (size_t)size[i].seq_q - 1, &apart, &LSE_apart);
            cr_expect(apart <= 1 && LSE_apart < 1e-5f,
                      "%s: last query, case %zu: %d halves, LSE %g", name, i, apart,
                      (double)LSE_apart);
            largest_differences(&masked, &full, 0, &apart, &LSE_apart);
            cr_expect(size[i].seq_q == 1 || apart > 1,
                      "%s: case %zu: the mask changes nothing at all", name, i);
        }
        trial_destroy(&masked);
        trial_destroy(&full);
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* Some rungs */

KERNELS_WHERE(of_halves_alone, !(row->types & 1 << TENSOR_BF16))
KERNELS_WHERE(of_16_bytes, row->alignment == 16)
KERNELS_WHERE(without_lengths, !row->variants && !row->lengths)
KERNELS_WHERE(without_pages, !row->paged)
KERNELS_WHERE(of_tables, row->lengths && row->paged)
KERNELS_WHERE(of_tiles, !row->paged)

static void check_bfloat16(struct size size, enum input_kind kind, uint64_t seed)
{
    size.type = TENSOR_BF16;
    check_sizes(of_two_types(), size, kind, seed, 0);
}

TEST(bfloat16, shapes)
{
    static const struct size size[] = {
        {1, 1, 1, 1, 1, 64, false},     {1, 2, 1, 33, 65, 8, true},
        {1, 1, 1, 70, 140, 72, false},  {2, 2, 1, 37, 45, 40, true},
        {1, 1, 1, 200, 7, 64, true},    {1, 1, 1, 5, 300, 128, false},
        {1, 1, 1, 200, 261, 64, true},  {1, 1, 1, 65, 261, 64, false},
        {1, 1, 1, 129, 131, 120, true},
    };
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        check_bfloat16(size[i], INPUTS_NORMAL, 181 + i);
}

TEST(bfloat16, inputs)
{
    for (int kind = 0; kind < INPUT_KINDS; kind++)
        check_bfloat16((struct size){1, 1, 1, 67, 131, 64, true}, (enum input_kind)kind, 191);
}

TEST(bfloat16, contract)
{
    check_LSE_is_optional(of_two_types(), TENSOR_BF16);
    check_no_keys(of_two_types(), TENSOR_BF16);
    const struct size size = {1, 2, 1, 9, 70, 16, false, TENSOR_BF16};
    check_refused_pointers(of_two_types(), size);

    struct trial trial = trial_with(size, INPUTS_NORMAL, 5);
    const struct attention call = call_on(&trial);
    expect_refused(of_halves_alone(), &call, "type is bf16; this kernel does not take it");
    trial_destroy(&trial);
}

/* ---------------------------------------------------------------------------------------------- */
/* Through the C functions: what the command line cannot ask for */

CALL_TEST(contract, LSE_is_optional, check_LSE_is_optional(causal_half_kernels(), TENSOR_F16))
CALL_TEST(contract, no_keys, check_no_keys(causal_half_kernels(), TENSOR_F16))

TEST(contract, refused_calls)
{
    check_refused_calls(of_halves_alone(), TENSOR_F16);

    /* The kernels multiply the scale by log2 e. */
    struct trial trial = half_trial((struct size){1, 1, 1, 9, 70, 64}, false, INPUTS_NORMAL, 5);
    struct attention call = call_on(&trial);
    call.scale = 3e38f;
    expect_refused(causal_half_kernels(), &call, "scale is 3e+38");
    call = call_on(&trial), call.type = TENSOR_F32;
    expect_refused(causal_half_kernels(), &call, "type is f32");
    trial_destroy(&trial);
}

CALL_TEST(contract, refused_pointers,
          check_refused_pointers(causal_half_kernels(),
                                 in_half((struct size){1, 2, 1, 9, 70, 16}, false)))

TEST(contract, refused_head_dims)
{
    static const int head_dim[] = {1, 4, 12, 63, 65, 100, 127};
    EACH_KERNEL (kernel, of_16_bytes()) {
        for (size_t i = 0; i < sizeof head_dim / sizeof *head_dim; i++) {
            const long long *const sizes =
                SIZES(in_half(((struct size){1, 1, 1, 5, 7, head_dim[i]}), true));
            char words[80];
            snprintf(words, sizeof words,
                     "head_dim is %d; this kernel takes multiples of 8 up to 128", head_dim[i]);
            ladder_refuses(&attention_problem, causal_half_kernels(), kernel->about.name, sizes,
                           words);
        }
    }
}

/* What a row does not say that its kernel takes, the kernel does not see. */
TEST(contract, refused_tables)
{
    struct trial trial = half_trial((struct size){1, 1, 1, 9, 70, 64}, false, INPUTS_NORMAL, 5);
    const struct attention good = call_on(&trial);
    const int *table = trial.device[Q_AT].data;
    struct attention call = good;
    call.lengths = table;
    expect_refused(without_lengths(), &call, "lengths are given; this kernel takes none");
    call = good, call.pages = table, call.page_size = 16, call.pool_pages = 5;
    expect_refused(without_pages(), &call, "pages are given; this kernel takes none");
    for (int page_size = 0; page_size <= 512; page_size += 8) {
        const bool right =
            page_size >= 16 && page_size <= 256 && (page_size & (page_size - 1)) == 0;
        char words[80];
        snprintf(words, sizeof words, "page_size is %d; it must be a power of two", page_size);
        call.page_size = page_size;
        if (!right)
            expect_refused(causal_half_kernels(), &call, words);
    }
    call.page_size = 16, call.pool_pages = -1;
    expect_refused(causal_half_kernels(), &call, "pool_pages is -1");
    call.pool_pages = 1 << 28;
    expect_refused(causal_half_kernels(), &call, "pool_pages * kv_heads * page_size is 4294967296");
    call.pool_pages = 5, call.pages = NULL;
    expect_refused(causal_half_kernels(), &call, "pages is null");
    trial_destroy(&trial);
}

/* Runs a kernel on these lengths and pages, and brings O and LSE to the host. */
static void run_on_tables(const struct attention_kernel *kernel, struct trial *trial,
                          const int *lengths, const int *pages)
{
    enum { LENGTHS_AT = V_AT + 1, PAGES_AT };
    const int outputs[] = {O_AT + 2, LSE_AT + 2};
    memcpy(trial->host[LENGTHS_AT], lengths, trial->tensors[LENGTHS_AT].rows * sizeof(int));
    memcpy(trial->host[PAGES_AT], pages,
           trial->tensors[PAGES_AT].rows * trial->tensors[PAGES_AT].cols * sizeof(int));
    struct attention call = call_on(trial);
    for (int t = LENGTHS_AT; t <= PAGES_AT; t++)
        cr_assert(device_buffer_upload(&trial->device[t], trial->host[t]) == cudaSuccess);
    call.lengths = trial->device[LENGTHS_AT].data;
    call.pages = trial->device[PAGES_AT].data;
    call.O = trial->device[outputs[0]].data;
    call.LSE = trial->device[outputs[1]].data;
    cr_assert(trial_poison(trial, NULL) == cudaSuccess);
    cr_assert(run_once(kernel, call) == cudaSuccess, "%s: %s", kernel->about.name, refusal());
    for (int i = 0; i < 2; i++) {
        const int t = outputs[i];
        const struct tensor *tensor = &trial->tensors[t];
        cr_assert(device_buffer_download(&trial->device[t], trial->host[t]) == cudaSuccess);
        for (size_t at = 0; at < tensor->rows * tensor->cols; at++) /* the poison is a NaN, too */
            cr_assert(!check_is_poison(trial->host[t], tensor->type, at, t), "%s left out %s",
                      kernel->about.name, tensor->name);
    }
}

/* A row is NaN throughout, or as it was before to the bit. */
static void expect_row_of_tables(const struct trial *trial, const char *name, size_t row,
                                 const uint16_t *O_before, const float *LSE_before, bool nan)
{
    const size_t cols = trial->tensors[O_AT + 2].cols;
    const uint16_t *O = trial->host[O_AT + 2];
    const float *LSE = trial->host[LSE_AT + 2];
    for (size_t c = row * cols; c < (row + 1) * cols; c++)
        cr_expect(nan ? isnan(tensor_element(O, TENSOR_F16, c)) : O[c] == O_before[c],
                  "%s: row %zu of O, which %s NaN", name, row, nan ? "should be" : "is not");
    cr_expect(nan ? isnan(LSE[row]) : memcmp(&LSE[row], &LSE_before[row], sizeof *LSE) == 0,
              "%s: LSE of row %zu, which %s NaN", name, row, nan ? "should be" : "is not");
}

/* Wrong lengths and pages make NaN of the rows that they concern, and of no other. Nothing is read
 * past the arrays: the guards around them are watched. */
static void check_wrong_tables(int page)
{
    enum { BATCH = 4, HEADS = 4, SEQ_Q = 2, SEQ_KV = 600, MOST = BATCH * SEQ_KV / 16 + BATCH };
    const long long sizes[MAX_SIZES] = {
        [ATTENTION_BATCH] = BATCH, [ATTENTION_HEADS] = HEADS,     [ATTENTION_KV_HEADS] = 2,
        [ATTENTION_SEQ_Q] = SEQ_Q, [ATTENTION_SEQ_KV] = SEQ_KV,   [ATTENTION_HEAD_DIM] = 64,
        [ATTENTION_CAUSAL] = true, [ATTENTION_TYPE] = TENSOR_F16, [ATTENTION_LENGTHS] = true,
        [ATTENTION_PAGE] = page};
    const int columns = (SEQ_KV + page - 1) / page;
    struct trial trial = ladder_trial(&attention_problem, sizes, INPUTS_NORMAL, 77, 0);
    const struct attention call = attention_of(sizes);
    /* The last query of the last sequence alone sees its last page. A wrong length and one of up to
     * 64 keys are one tile: decode_balanced, which cuts by all lengths, cuts the others as before.
     */
    const int right_lengths[BATCH] = {SEQ_KV, 50, 0, 2 * page + 1};
    const int lengths[BATCH] = {SEQ_KV, -1, SEQ_KV + 1, 2 * page + 1};
    int right_pages[MOST], pages[MOST];
    for (int i = 0; i < BATCH * columns; i++)
        right_pages[i] = i;
    memcpy(pages, right_pages, sizeof pages);
    pages[3 * columns + 2] = call.pool_pages;
    uint16_t O[BATCH * HEADS * SEQ_Q * 64];
    float LSE[BATCH * HEADS * SEQ_Q];
    /* Each page of the pool has numbers, so that NaN comes from the tables alone. */
    for (int t = K_AT; t <= V_AT; t++) {
        for (size_t i = 0; i < trial.tensors[t].rows * trial.tensors[t].cols; i++)
            tensor_store(trial.host[t], TENSOR_F16, i, sin((double)i * t));
        cr_assert(device_buffer_upload(&trial.device[t], trial.host[t]) == cudaSuccess);
    }
    EACH_KERNEL (kernel, of_tables()) {
        run_on_tables(kernel, &trial, right_lengths, right_pages);
        memcpy(O, trial.host[O_AT + 2], sizeof O);
        memcpy(LSE, trial.host[LSE_AT + 2], sizeof LSE);
        run_on_tables(kernel, &trial, lengths, pages);
        for (size_t row = 0; row < BATCH * HEADS * SEQ_Q; row++) {
            const size_t sequence = row / (HEADS * SEQ_Q);
            const bool last_query = row % SEQ_Q == SEQ_Q - 1;
            expect_row_of_tables(&trial, kernel->about.name, row, O, LSE,
                                 sequence == 1 || sequence == 2 || (sequence == 3 && last_query));
        }
        pages[1] = -1; /* every row of the first sequence sees it */
        run_on_tables(kernel, &trial, lengths, pages);
        for (size_t row = 0; row < HEADS * SEQ_Q; row++)
            expect_row_of_tables(&trial, kernel->about.name, row, O, LSE, true);
        pages[1] = right_pages[1];
    }
    trial_destroy(&trial);
}

CALL_TEST(tables, pages_of_16, check_wrong_tables(16))
CALL_TEST(tables, pages_of_64, check_wrong_tables(64))
CALL_TEST(tables, pages_of_256, check_wrong_tables(256))

/* Most rungs refuse scales that are not positive, because they take the maximum of the unscaled
 * scores. */
TEST(contract, refused_scales)
{
    struct trial trial = half_trial((struct size){1, 1, 1, 9, 70, 64}, false, INPUTS_NORMAL, 5);
    struct attention call = call_on(&trial);
    call.scale = 0.0f;
    expect_refused(of_16_bytes(), &call, "scale is 0; this kernel takes positive scales");
    call.scale = -0.5f;
    expect_refused(of_16_bytes(), &call, "scale is -0.5");
    trial_destroy(&trial);
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
        expect_refused(of_16_bytes(), &call, words);
    }
    trial_destroy(&trial);
}

/* ---------------------------------------------------------------------------------------------- */
/* Launchers: one case for each head_dim, mask and type, and for each side of 512 keys; the second
 * is the first with other heads */

TEST(launches, errors_and_streams)
{
    static const struct size cases[] = {{1, 2, 1, 9, 20, 64, false, TENSOR_F16},
                                        {1, 2, 2, 9, 20, 64, false, TENSOR_F16},
                                        {1, 1, 1, 9, 20, 128, true, TENSOR_F16},
                                        {1, 1, 1, 3, 530, 64, true, TENSOR_F16}};
    check_launches(causal_half_kernels(), cases, sizeof cases / sizeof *cases);
}

TEST(launches, errors_and_streams_in_bfloat16)
{
    static const struct size cases[] = {{1, 2, 2, 9, 20, 128, false, TENSOR_BF16},
                                        {1, 1, 1, 9, 20, 64, true, TENSOR_BF16}};
    check_launches(of_two_types(), cases, sizeof cases / sizeof *cases);
}

TEST(launches, many)
{
    check_many_launches(causal_half_kernels(), in_half((struct size){1, 10, 5, 3, 20, 8}, true));
}

/* Q, K and V have a map each, in every rung from mma_tma on; O has one in some. K and V have one in
 * decode_ring. */
TEST(launches, errors_of_maps)
{
    const void *tma = ladder_find(&attention_problem, causal_half_kernels(), "mma_tma");
    const void *ring = ladder_find(&attention_problem, causal_half_kernels(), "decode_ring");
    const struct attention_kernel ring_alone[] = {*(const struct attention_kernel *)ring,
                                                  {.about.name = NULL}};
    static const struct size cases[] = {{1, 2, 1, 9, 20, 64, false, TENSOR_F16},
                                        {1, 2, 2, 9, 20, 128, true, TENSOR_BF16},
                                        {1, 1, 1, 130, 520, 72, false, TENSOR_F16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ladder_returns_map_errors(&attention_problem, tma, SIZES(cases[i]), 3);
        ladder_returns_map_errors(&attention_problem, ring_alone, SIZES(cases[i]), 2);
    }
}

TEST(launches, errors_and_streams_of_pairs)
{
    static const struct size cases[] = {{1, 1, 1, 130, 520, 72, false, TENSOR_F16},
                                        {1, 1, 1, 130, 520, 72, false, TENSOR_BF16}};
    static const struct size causal_cases[] = {{1, 1, 1, 130, 1030, 72, true, TENSOR_F16},
                                               {1, 1, 1, 130, 1030, 72, true, TENSOR_BF16}};
    check_launches(pairs(), cases, sizeof cases / sizeof *cases);
    check_launches(causal_pairs(), causal_cases, sizeof causal_cases / sizeof *causal_cases);
}

/* ---------------------------------------------------------------------------------------------- */
/* Devices that are too old, or too new: on a GPU there is only the one */

static void expect_skips(int architecture)
{
    ladder_on_architecture(&attention_problem, causal_half_kernels(),
                           SIZES(in_half(((struct size){1, 1, 1, 9, 17, 16}), true)), architecture);
}

CALL_TEST(architecture, volta, expect_skips(70))
CALL_TEST(architecture, turing, expect_skips(75))
CALL_TEST(architecture, ada, expect_skips(89))
CALL_TEST(architecture, blackwell, expect_skips(100))

TEST(devices, several)
{
    static const struct size cases[] = {{1, 2, 1, 70, 45, 64, false, TENSOR_F16},
                                        {1, 3, 1, 200, 45, 128, true, TENSOR_F16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ladder_devices(&attention_problem, causal_half_kernels(), SIZES(cases[i]));
}

/* An sm_86, where a block has 99 KB of shared memory: each rung fits. */
CONDITIONAL_TEST(architecture, less_shared_memory, ladder_architecture(86))
{
    check((struct size){1, 1, 1, 9, 70, 64}, true, INPUTS_NORMAL, 201);
    check((struct size){1, 1, 1, 9, 70, 128}, true, INPUTS_NORMAL, 202);
}

/* ---------------------------------------------------------------------------------------------- */
/* What the lesson says about traffic */

/* These are sizes without pairs; the next test counts pairs. */
TEST(counters, costs)
{
    static const struct size counted[] = {
        {1, 1, 1, 64, 64, 16, false, TENSOR_F16},    {1, 1, 1, 192, 256, 64, true, TENSOR_F16},
        {1, 1, 1, 128, 128, 128, false, TENSOR_F16}, {1, 2, 1, 33, 45, 40, true, TENSOR_F16},
        {1, 1, 1, 300, 7, 72, true, TENSOR_F16},     {1, 1, 1, 3, 300, 64, true, TENSOR_F16},
        {1, 1, 1, 200, 140, 64, true, TENSOR_F16},   {1, 2, 1, 33, 0, 72, false, TENSOR_F16},
    };
    check_costs(causal_half_kernels(), counted, sizeof counted / sizeof *counted);
    static const struct size of_causal_pairs = {1, 1, 1, 512, 1030, 128, true, TENSOR_BF16};
    check_costs(causal_pairs(), &of_causal_pairs, 1);
}

/* Each kernel must make this many atomics, and do what its row says. */
static void expect_atomics(const struct attention_kernel *table, struct size size,
                           unsigned long long atomics)
{
    EACH_COUNTED (kernel, table) {
        struct counters counters;
        if (count_of(table, kernel->about.name, size, &counters))
            cr_expect(counters.atomics == atomics, "%s: %llu atomics", kernel->about.name,
                      counters.atomics);
    }
}

/* The producers of `persistent_blocks` and `across_tiles` draw each tile once, beyond each block's
 * first. Full pairs are dealt out, and a causal pair makes one draw for both blocks. */
TEST(counters, atomics)
{
    const struct size size = {1, 2, 1, 193, 32, 64};
    EACH_COUNTED (kernel, causal_half_kernels()) {
        struct counters counters;
        if (!count(kernel->about.name, size, false, &counters))
            continue;
        const bool draws = kernel->workspace != NULL && !kernel->paged;
        cr_expect(counters.atomics == (unsigned long long)(draws ? 2 * tiles(193, 192) : 0),
                  "%s: %llu atomics", kernel->about.name, counters.atomics);
    }
    expect_atomics(pairs(), in_half((struct size){1, 2, 1, 200, 600, 72}, false), 0);
    expect_atomics(causal_pairs(), in_half((struct size){1, 2, 1, 200, 1030, 72}, true), 2);
}

/* With a square mask and T tiles of Br queries, T (T + 1) / 2 of T² squares of Br x Br are loaded:
 * (T + 1) / 2T of the keys. The rows' formulas say so, and the tests above compare them with the
 * counts. */
TEST(counters, causal_is_half_the_work)
{
    EACH_KERNEL (kernel, of_tiles()) {
        for (long long T = 1; T <= 4; T++) {
            const long long seq = T * kernel->Br[1], d = 72, query_bytes = 2 * seq * d;
            struct size size = {1, 1, 1, seq, seq, d, false, TENSOR_F16};
            struct attention call = call_of(size);
            const long long full = kernel->cost(kernel, &call).bytes_read - query_bytes;
            call.causal = true;
            const long long causal = kernel->cost(kernel, &call).bytes_read - query_bytes;
            cr_expect(full == 2 * 2 * T * seq * d && 2 * T * causal == (T + 1) * full,
                      "%s, %lld tiles: %lld bytes of keys, with a mask %lld", kernel->about.name, T,
                      full, causal);
        }
    }
}

/* With padding or swizzle no access waits for a bank. wmma is left out, because the order of its
 * fragments is not documented. */
TEST(counters, no_bank_conflicts)
{
    static const int head_dim[] = {64, 128};
    EACH_COUNTED (kernel, causal_half_kernels()) {
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

/* The whole block has two barriers a tile, then one, then only the one at the start. */
TEST(counters, barriers)
{
    static const struct {
        const char *name;
        int fixed, per_tile;
    } expected[] = {{"half", 0, 2},      {"wmma", 0, 2},         {"mma", 1, 2},
                    {"mma_async", 1, 1}, {"mma_swizzled", 0, 1}, {"mma_ordered", 1, 1},
                    {"mma_tma", 2, 1},   {"wgmma", 1, 1}};
    const struct size size = {1, 1, 1, 64, 256, 64};
    EACH_EXPECTED (&attention_problem, causal_half_kernels(), row, expected) {
        struct counters counters;
        if (!count(row->name, size, false, &counters))
            continue;
        const struct attention_kernel *kernel = (const struct attention_kernel *)ladder_find(
            &attention_problem, causal_half_kernels(), row->name);
        const long long barriers = row->fixed + row->per_tile * tiles(256, kernel->Bc[0]);
        cr_expect(counters.barriers == (unsigned long long)barriers,
                  "%s: %llu barriers, %lld expected", row->name, counters.barriers, barriers);
    }
}

/*
 * Tiles are whole and sectors too: no load fetches bytes that no lane asked for. The rungs that
 * store from the accumulators write half a sector of O at a time, wmma an eighth. `half` takes a
 * sector for the LSE of two rows. The order of wmma's fragments in shared memory is not documented.
 * What the decode ladder loads in sectors stands in its claims.
 */
static void check_sectors(struct size size, double wmma_wavefronts)
{
    const double O = 2.0 * size.head_dim, LSE = 4.0; /* bytes of a row */
    const double halves = (2 * O + LSE) / (O + LSE);
    const struct traffic expected[] = {
        {"half", 0, (2 * O + 4 * LSE) / (O + LSE), 0},
        {"wmma", 0, (8 * O + LSE) / (O + LSE), wmma_wavefronts},
        {"half_variants", 0, (2 * O + 4 * LSE) / (O + LSE), 0},
        {"mma", 0, halves, 0},
        {"mma_async", 0, halves, 0},
        {"mma_swizzled", 0, halves, 0},
        {"wgmma", 0, halves, 0},
        {"producer_warp", 0, halves, 0},
        {"overlap", 0, halves, 0},
        {"ping_pong", 0, halves, 0},
        {NULL, 0, 0, 0},
    };
    check_traffic(of_tiles(), size, expected);
}

TEST(counters, traffic)
{
    check_sectors(in_half((struct size){1, 1, 1, 384, 128, 64}, false), 1.863);
    check_sectors(in_half((struct size){1, 1, 1, 128, 128, 128}, true), 1.6154);
}

/* The numbers are what the kernels did when they were judged: a faster way changes them. */
TEST(counters, work_heads)
{
    static const struct work expected[] = {
        {"half", 10, 2560, 5734400, 140},
        {"wmma", 10, 1280, 431360, 140},
        {"mma", 10, 1280, 168960, 90},
        {"mma_async", 10, 1280, 168960, 50},
        {"mma_swizzled", 6, 768, 122880, 30},
        {"mma_ordered", 6, 768, 127200, 36},
        {"mma_tma", 6, 768, 127200, 42},
        {"wgmma", 6, 1536, 61440, 18},
        {"producer_warp", 4, 2048, 61440, 4},
        {"overlap", 4, 2048, 61440, 4},
        {"ping_pong", 4, 2048, 61440, 32},
        {"tma_store", 4, 2048, 61474, 32},
        {"persistent_blocks", 4, 2048, 61954, 32},
        {"across_tiles", 4, 2048, 61954, 32},
        {"multicast", 4, 2048, 61954, 32},
        {"lazy_rescale", 4, 2048, 61954, 32},
        {"drawn_pairs", 4, 2048, 61954, 32},
        {"folded", 4, 2048, 61954, 32},
        {"skipping", 4, 2048, 56834, 32},
        {NULL, 0, 0, 0, 0},
    };
    ladder_work(&attention_problem, causal_half_kernels(),
                SIZES(((struct size){1, 2, 1, 270, 200, 64, false, TENSOR_F16})), expected);
}

TEST(counters, work_causal)
{
    static const struct work expected[] = {
        {"mma", 30, 3840, 1177600, 310},
        {"mma_async", 30, 3840, 1177600, 170},
        {"mma_swizzled", 20, 2560, 1024000, 100},
        {"mma_ordered", 20, 2560, 1048000, 120},
        {"mma_tma", 20, 2560, 1048000, 140},
        {"wgmma", 20, 5120, 512000, 70},
        {"producer_warp", 20, 7680, 512000, 20},
        {"overlap", 20, 7680, 512000, 20},
        {"ping_pong", 20, 7680, 512000, 140},
        {"tma_store", 20, 7680, 512200, 140},
        {"persistent_blocks", 8, 3072, 513320, 116},
        {"across_tiles", 8, 3072, 513320, 116},
        {"multicast", 8, 3072, 513320, 116},
        {"lazy_rescale", 8, 3072, 513320, 116},
        {"drawn_pairs", 8, 3072, 513320, 116},
        {"folded", 8, 3072, 513320, 116},
        {"skipping", 8, 3072, 513320, 116},
        {NULL, 0, 0, 0, 0},
    };
    ladder_work(&attention_problem, causal_half_kernels(),
                SIZES(((struct size){1, 10, 5, 150, 300, 128, true, TENSOR_BF16})), expected);
}
