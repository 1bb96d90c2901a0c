/* Step 04: from the scores in memory to FlashAttention-1. */
#include "04_flash_v1/04_step.h"
#include "attention_cases.h"

static void check(struct size size, enum input_kind kind, uint64_t seed, size_t offset)
{
    const long long sizes[MAX_SIZES] = SIZES(size);
    ladder_check(&attention_problem, flash_v1_kernels, sizes, kind, seed, offset);
}

/* The kernels that go tile by tile are fast enough to be tried at many more shapes than those that
 * go key by key. */
static void check_tiles(struct size size, enum input_kind kind, uint64_t seed, size_t offset)
{
    const long long sizes[MAX_SIZES] = SIZES(size);
    ladder_check(&attention_problem, flash_v1_tiles, sizes, kind, seed, offset);
}

static bool count(const void *table, const char *name, struct size size, struct counters *counters)
{
    const long long sizes[MAX_SIZES] = SIZES(size);
    return ladder_count(&attention_problem, table, name, sizes, counters);
}

/* ---------------------------------------------------------------------------------------------- */
/* Every kernel, every shape */

TEST(shapes, sequences)
{
    static const int seq[] = {1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 80};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++)
        check((struct size){1, 1, 1, seq[i], seq[i], 20}, INPUTS_NORMAL, 3 + i, 0);
}

TEST(shapes, long_sequences)
{
    static const int seq[] = {100, 127, 128, 129};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++) {
        check((struct size){1, 1, 1, seq[i], 17, 20}, INPUTS_NORMAL, 23 + i, 0);
        check((struct size){1, 1, 1, 19, seq[i], 20}, INPUTS_NORMAL, 27 + i, 0);
    }
}

TEST(shapes, head_dims)
{
    static const int head_dim[] = {1, 2, 3, 16, 31, 32, 33, 64, 65, 80, 96, 97, 127, 128};
    for (size_t i = 0; i < sizeof head_dim / sizeof *head_dim; i++)
        check((struct size){1, 1, 1, 19, 37, head_dim[i]}, INPUTS_NORMAL, 31 + i, 0);
}

/* Chunks of 32 keys, and 8 warps that share the keys of a query: around the multiples of both. */
TEST(shapes, queries_are_not_keys)
{
    static const int seq[][2] = {{1, 300},  {300, 1}, {2, 257}, {129, 3},
                                 {5, 1000}, {31, 65}, {97, 9},  {3, 128}};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++)
        check((struct size){1, 1, 1, seq[i][0], seq[i][1], 33}, INPUTS_NORMAL, 51 + i, 0);
}

TEST(shapes, batches_and_heads)
{
    static const int heads[][3] = {{2, 3, 3}, {3, 2, 1}, {2, 6, 2}, {1, 6, 3}, {5, 4, 1}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        check((struct size){heads[i][0], heads[i][1], heads[i][2], 9, 70, 20}, INPUTS_NORMAL,
              61 + i, 0);
}

TEST(shapes, inputs)
{
    for (int kind = 0; kind < INPUT_KINDS; kind++) {
        check((struct size){1, 2, 1, 11, 131, 64}, (enum input_kind)kind, 71, 0);
        check((struct size){2, 1, 1, 17, 66, 19}, (enum input_kind)kind, 72, 0);
    }
}

/* Pointers aligned to 4 bytes only, in each of the positions within 16 bytes. */
TEST(shapes, misaligned)
{
    static const int head_dim[] = {4, 30, 64};
    for (size_t i = 0; i < sizeof head_dim / sizeof *head_dim; i++)
        for (size_t offset = 4; offset < 16; offset += 4)
            check((struct size){1, 1, 1, 18, 34, head_dim[i]}, INPUTS_NORMAL, 81 + i, offset);
}

TEST(shapes, nothing_to_do)
{
    check((struct size){1, 0, 0, 5, 5, 16}, INPUTS_NORMAL, 91, 0);
    check((struct size){0, 2, 1, 5, 5, 16}, INPUTS_NORMAL, 92, 0);
    check((struct size){1, 1, 1, 0, 0, 16}, INPUTS_NORMAL, 93, 0);
}

/* ---------------------------------------------------------------------------------------------- */
/* FlashAttention-1 at every tile: tiles - 1, tiles, tiles + 1, two full ones and a tail, both
 * ways */

TEST(tiles, sequences)
{
    static const int seq[] = {1,  7,  8,  9,  15, 16, 17,  23,  24,  25,  31,  32,  33,  47,
                              48, 49, 63, 64, 65, 95, 100, 127, 128, 129, 255, 256, 257, 389};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++) {
        check_tiles((struct size){1, 1, 1, seq[i], 67, 36}, INPUTS_NORMAL, 101 + i, 0);
        check_tiles((struct size){1, 1, 1, 35, seq[i], 36}, INPUTS_NORMAL, 131 + i, 0);
    }
    check_tiles((struct size){1, 2, 1, 389, 389, 64}, INPUTS_NORMAL, 161, 0);
}

TEST(tiles, head_dims)
{
    for (int head_dim = 1; head_dim <= 128;
         head_dim += head_dim % 32 < 2 || head_dim % 32 > 29 ? 1 : 9)
        check_tiles((struct size){1, 1, 1, 35, 141, head_dim}, INPUTS_NORMAL,
                    171 + (uint64_t)head_dim, 0);
}

TEST(tiles, heads_and_inputs)
{
    for (int kind = 0; kind < INPUT_KINDS; kind++) {
        check_tiles((struct size){2, 6, 2, 41, 150, 64}, (enum input_kind)kind, 301, 0);
        check_tiles((struct size){3, 4, 1, 70, 23, 80}, (enum input_kind)kind, 302, 4);
        check_tiles((struct size){1, 1, 1, 50, 300, 128}, (enum input_kind)kind, 303, 0);
    }
}

/* ---------------------------------------------------------------------------------------------- */
/* Through the C functions: what the command line cannot ask for */

TEST(contract, LSE_is_optional)
{
    check_LSE_is_optional(&attention_problem, flash_v1_kernels);
    check_LSE_is_optional(&attention_problem, flash_v1_tiles);
}

TEST(contract, no_keys)
{
    check_no_keys(&attention_problem, flash_v1_kernels);
    check_no_keys(&attention_problem, flash_v1_tiles);
}

TEST(contract, any_scale)
{
    check_any_scale(flash_v1_kernels);
}

TEST(contract, refused_shapes)
{
    check_refused_sizes(&attention_problem, flash_v1_kernels);
    check_refused_shapes(flash_v1_kernels);
}

TEST(contract, refused_pointers)
{
    check_refused_pointers(&attention_problem, flash_v1_kernels, (struct size){1, 2, 1, 9, 70, 16});
}

/* The rows of all heads must be countable with an int, and a grid must hold the blocks that a
 * kernel wants. */
TEST(contract, refused_counts)
{
    const struct attention_limits limits = {128, 1, false};
    float pointer[4] = {0};
    struct attention_shape shape = {1 << 11, 1 << 10, 1 << 10, 1 << 10, 1, 1, false, 1.0f};
    cr_expect(attention_check_arguments(pointer, pointer, pointer, pointer, NULL, NULL, 0, &shape,
                                        sizeof(float), &limits) == cudaErrorInvalidValue);
    cr_expect(strstr(refusal(), "batch * heads * seq_q is 2147483648") != NULL, "%s", refusal());
    shape = (struct attention_shape){1 << 11, 1 << 10, 1 << 10, 1, 1 << 10, 1, false, 1.0f};
    cr_expect(attention_check_arguments(pointer, pointer, pointer, pointer, NULL, NULL, 0, &shape,
                                        sizeof(float), &limits) == cudaErrorInvalidValue);
    cr_expect(strstr(refusal(), "batch * kv_heads * seq_kv is 2147483648") != NULL, "%s",
              refusal());
    cr_expect(require_blocks(INT_MAX) == cudaSuccess);
    cr_expect(require_blocks((size_t)INT_MAX + 1) == cudaErrorInvalidValue);
}

/* The scores of one head at 16384 are 1 GiB, and standard wants them all; the others want a few
 * floats per query. */
TEST(contract, workspace)
{
    for (int seq = 1; seq <= 1 << 20; seq *= 2) {
        const struct attention_shape shape = {2, 3, 1, seq, 2 * seq, 64, false, 0.125f};
        const size_t queries = (size_t)6 * seq;
        cr_expect(attention_standard_workspace(&shape) == queries * 2 * seq * sizeof(float));
        for (const struct attention_kernel *kernel = flash_v1_kernels + 1; kernel->name; kernel++) {
            const size_t bytes = kernel->workspace ? kernel->workspace(&shape) : 0;
            cr_expect(bytes <= queries * 12 + 4, "%s: %zu bytes for %zu queries", kernel->name,
                      bytes, queries);
        }
    }
    const struct attention_shape head = {1, 1, 1, 16384, 16384, 64, false, 0.125f};
    cr_expect(attention_standard_workspace(&head) == (size_t)1 << 30);
    cr_expect(attention_flash_v1_workspace(&head) == (size_t)2 * 16384 * sizeof(float));
    for (const struct attention_kernel *kernel = flash_v1_kernels; kernel->name; kernel++)
        cr_expect(!kernel->workspace || kernel->workspace(NULL) == 0, "%s: a null shape",
                  kernel->name);
}

/* ---------------------------------------------------------------------------------------------- */
/* What the lesson says about traffic, in elements of 4 bytes */

static const struct size counted[] = {
    {1, 2, 1, 64, 64, 16},
    {1, 1, 1, 50, 70, 33},
    {2, 2, 1, 17, 130, 20},
    {1, 1, 1, 3, 1, 1},
};
enum { COUNTED = sizeof counted / sizeof *counted, CHUNK = 32 };

struct traffic {
    unsigned long long read, written;
};

static void expect_traffic(const char *name, const struct counters *counters, struct traffic is)
{
    cr_expect(counters->global_load_bytes == 4 * is.read, "%s: %llu bytes read, %llu expected",
              name, counters->global_load_bytes, 4 * is.read);
    cr_expect(counters->global_store_bytes == 4 * is.written,
              "%s: %llu bytes written, %llu expected", name, counters->global_store_bytes,
              4 * is.written);
}

/* Every score is written, read by each of the three sweeps of the softmax, written as a
 * probability, and read by each of the head_dim threads that need it. */
TEST(counters, standard)
{
    for (int i = 0; i < COUNTED; i++) {
        const unsigned long long rows =
            (unsigned long long)(counted[i].batch * counted[i].heads * counted[i].seq_q);
        const unsigned long long d = (unsigned long long)counted[i].head_dim;
        const unsigned long long scores = rows * (unsigned long long)counted[i].seq_kv;
        struct counters counters;
        if (!count(flash_v1_kernels, "standard", counted[i], &counters))
            return;
        const struct traffic traffic = {2 * d * scores + 3 * scores + 2 * d * scores,
                                        2 * scores + rows * (d + 1)};
        expect_traffic("standard", &counters, traffic);
    }
}

/* Key by key: q once, every key and value once per query. */
TEST(counters, key_by_key)
{
    for (int i = 0; i < COUNTED; i++) {
        const unsigned long long rows =
            (unsigned long long)(counted[i].batch * counted[i].heads * counted[i].seq_q);
        const unsigned long long d = (unsigned long long)counted[i].head_dim;
        const unsigned long long keys = (unsigned long long)counted[i].seq_kv;
        const struct traffic once = {rows * d * (1 + 2 * keys), rows * (d + 1)};
        struct counters counters;
        if (!count(flash_v1_kernels, "row_parallel", counted[i], &counters))
            return;
        expect_traffic("row_parallel", &counters, once);
        cr_expect(counters.barriers == 0);

        /* Its eight warps each read q. */
        count(flash_v1_kernels, "key_parallel_block", counted[i], &counters);
        expect_traffic("key_parallel_block", &counters,
                       (struct traffic){once.read + rows * d * 7, once.written});
        cr_expect(counters.barriers == rows);

        /* Each chunk reads q and stores O, l and m; each but the first loads them, all 32 lanes l
         * and m. */
        const unsigned long long chunks = (unsigned long long)tiles(counted[i].seq_kv, CHUNK);
        count(flash_v1_kernels, "key_parallel_ordered", counted[i], &counters);
        expect_traffic("key_parallel_ordered", &counters,
                       (struct traffic){once.read + rows * ((chunks - 1) * (d + d + 64)),
                                        rows * (chunks * (d + 2) + 1)});

        /* An atomic maximum, an atomic sum, and one for each element of O. */
        count(flash_v1_kernels, "key_parallel_atomic", counted[i], &counters);
        cr_expect(counters.atomics == rows * chunks * (2 + d),
                  "key_parallel_atomic: %llu atomics, %llu expected", counters.atomics,
                  rows * chunks * (2 + d));
    }
}

/* K and V once per head; per tile of Bc keys Q is read, O, l and m are read and written; all of it
 * begins written, and LSE is written at the beginning and at the end. */
static struct traffic flash_v1_traffic(struct size size, long long Bc)
{
    const long long heads = size.batch * size.heads, d = size.head_dim,
                    passes = tiles(size.seq_kv, Bc);
    return (struct traffic){
        (unsigned long long)(heads * (2 * size.seq_kv * d + passes * size.seq_q * (2 * d + 2))),
        (unsigned long long)(heads * size.seq_q * ((passes + 1) * (d + 2) + 2)),
    };
}

static void expect_flash_v1(const char *name, struct size size, long long Br, long long Bc)
{
    struct counters counters;
    if (!count(flash_v1_tiles, name, size, &counters))
        return;
    expect_traffic(name, &counters, flash_v1_traffic(size, Bc));
    if (Br > 0) {
        const unsigned long long barriers =
            (unsigned long long)(size.batch * size.heads * tiles(size.seq_kv, Bc) *
                                 (1 + 3 * tiles(size.seq_q, Br)));
        cr_expect(counters.barriers == barriers, "%s: %llu barriers, %llu expected", name,
                  counters.barriers, barriers);
    }
}

TEST(counters, flash_v1)
{
    for (int i = 0; i < COUNTED; i++) {
        expect_flash_v1("flash_v1", counted[i], 16, 16);
        expect_flash_v1("flash_v1_16x32", counted[i], 16, 32);
        expect_flash_v1("flash_v1_32x8", counted[i], 32, 8);
    }
}

/* Bc = 128 on a device that has the shared memory, as the one that counts does. */
TEST(counters, flash_v1_registers)
{
    static const struct size size[] = {
        {1, 2, 1, 70, 300, 64}, {1, 1, 1, 33, 128, 20}, {1, 1, 1, 40, 129, 128}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        expect_flash_v1("flash_v1_registers", size[i], 0, 128);
    expect_flash_v1("flash_v1_registers_64_kb", size[0], 0, 64);
    expect_flash_v1("flash_v1_registers_64_kb", size[2], 0, 32);
}
