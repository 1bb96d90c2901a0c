/* Step 05: FlashAttention-2. */
#include "04_flash_v1/04_step.h"
#include "05_flash_v2/05_step.h"
#include "attention_cases.h"

static void check(struct size size, enum input_kind kind, uint64_t seed, size_t offset)
{
    const long long sizes[MAX_SIZES] = SIZES(size);
    ladder_check(&attention_problem, flash_v2_kernels, sizes, kind, seed, offset);
}

static bool count(const char *name, struct size size, struct counters *counters)
{
    const long long sizes[MAX_SIZES] = SIZES(size);
    return ladder_count(&attention_problem, flash_v2_kernels, name, sizes, counters);
}

/* ---------------------------------------------------------------------------------------------- */
/* Every kernel, every shape */

TEST(shapes, sequences)
{
    static const int seq[] = {1,  2,  3,  7,  15,  16,  17,  31,  32, 33,
                              63, 64, 65, 80, 100, 127, 128, 129, 131};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++)
        check((struct size){1, 1, 1, seq[i], seq[i], 20}, INPUTS_NORMAL, 3 + i, 0);
}

/* On both sides of every width that a kernel pads head_dim to, and odd ones that no float4 fits. */
TEST(shapes, head_dims)
{
    static const int head_dim[] = {1,  2,  3,  4,  5,  16, 31, 32,  33,  36, 63,
                                   64, 65, 68, 80, 95, 96, 97, 100, 127, 128};
    for (size_t i = 0; i < sizeof head_dim / sizeof *head_dim; i++)
        check((struct size){1, 1, 1, 21, 70, head_dim[i]}, INPUTS_NORMAL, 31 + i, 0);
}

/* The template arguments that the ladder does not use, or not on this device. */
TEST(shapes, other_tiles)
{
    static const int seq[][2] = {{1, 1},   {31, 33}, {32, 8},  {65, 40},
                                 {33, 97}, {15, 7},  {70, 67}, {133, 35}};
    static const int head_dim[] = {20, 64, 90, 128};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++) {
        const struct size size = {1, 2, 1, seq[i][0], seq[i][1], head_dim[i % 4]};
        const long long sizes[MAX_SIZES] = SIZES(size);
        ladder_check(&attention_problem, flash_v2_tiles, sizes, INPUTS_NORMAL, 51 + i,
                     i % 3 == 2 ? 4 : 0);
    }
}

/* At least two full tiles and a tail of each kernel, both ways. */
TEST(shapes, tiles_and_tails)
{
    check((struct size){1, 1, 1, 261, 67, 64}, INPUTS_NORMAL, 61, 0);
    check((struct size){1, 1, 1, 257, 130, 32}, INPUTS_NORMAL, 62, 0);
    check((struct size){1, 1, 1, 133, 131, 96}, INPUTS_NORMAL, 63, 0);
    check((struct size){1, 1, 1, 130, 69, 128}, INPUTS_NORMAL, 64, 0);
    check((struct size){1, 1, 1, 19, 257, 64}, INPUTS_NORMAL, 65, 0);
}

TEST(shapes, queries_are_not_keys)
{
    static const int seq[][2] = {{1, 300},  {300, 1}, {2, 257}, {129, 3},
                                 {5, 1000}, {31, 97}, {97, 31}, {1, 2048}};
    for (size_t i = 0; i < sizeof seq / sizeof *seq; i++) {
        if (i % 2 == 0)
            check((struct size){1, 1, 1, seq[i][0], seq[i][1], 16}, INPUTS_NORMAL, 71 + i, 0);
        else
            check((struct size){1, 2, 2, seq[i][0], seq[i][1], 33}, INPUTS_DESCENDING, 81 + i, 0);
    }
    check((struct size){1, 1, 1, 1, 2900, 64}, INPUTS_ASCENDING, 91, 0);
    check((struct size){1, 1, 1, 3, 1500, 128}, INPUTS_ASCENDING, 92, 0);
}

TEST(shapes, batches_and_heads)
{
    static const int heads[][3] = {{2, 3, 3}, {3, 2, 1}, {2, 6, 2}, {1, 6, 3}, {5, 4, 1}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        check((struct size){heads[i][0], heads[i][1], heads[i][2], 18, 37, 20}, INPUTS_NORMAL,
              101 + i, 0);
        check((struct size){heads[i][0], heads[i][1], heads[i][2], 1, 530, 8}, INPUTS_NORMAL,
              111 + i, 0);
    }
}

TEST(shapes, inputs)
{
    for (int kind = 0; kind < INPUT_KINDS; kind++) {
        check((struct size){1, 2, 1, 35, 131, 64}, (enum input_kind)kind, 131, 0);
        check((struct size){2, 1, 1, 17, 66, 19}, (enum input_kind)kind, 132, 0);
        check((struct size){1, 2, 2, 1, 700, 40}, (enum input_kind)kind, 133, 0);
    }
}

/* Pointers aligned to 4 bytes only, in each of the positions within 16 bytes. */
TEST(shapes, misaligned)
{
    static const int head_dim[] = {4, 30, 64, 72, 128};
    for (size_t i = 0; i < sizeof head_dim / sizeof *head_dim; i++)
        for (size_t offset = 4; offset < 16; offset += 4) {
            check((struct size){1, 1, 1, 18, 34, head_dim[i]}, INPUTS_NORMAL, 141 + i, offset);
            check((struct size){1, 1, 1, 1, 520, head_dim[i]}, INPUTS_NORMAL, 151 + i, offset);
        }
}

TEST(shapes, nothing_to_see_and_nothing_to_do)
{
    check((struct size){1, 0, 0, 5, 5, 16}, INPUTS_NORMAL, 161, 0);
    check((struct size){0, 2, 1, 5, 5, 16}, INPUTS_NORMAL, 162, 0);
    check((struct size){1, 1, 1, 0, 0, 16}, INPUTS_NORMAL, 163, 0);
}

/* ---------------------------------------------------------------------------------------------- */
/* Through the C functions: what the command line cannot ask for */

TEST(contract, LSE_is_optional)
{
    check_LSE_is_optional(&attention_problem, flash_v2_kernels);
}

TEST(contract, no_keys)
{
    check_no_keys(&attention_problem, flash_v2_kernels);
}

TEST(contract, any_scale)
{
    check_any_scale(flash_v2_kernels);
}

TEST(contract, refused_shapes)
{
    check_refused_sizes(&attention_problem, flash_v2_kernels);
    check_refused_shapes(flash_v2_kernels);
}

/* So few queries that split_kv wants a workspace. */
TEST(contract, refused_pointers)
{
    const struct size size = {1, 1, 1, 1, 600, 16};
    const struct attention_shape shape = shape_of(size);
    cr_assert(attention_split_kv_workspace(&shape) > 0);
    check_refused_pointers(&attention_problem, flash_v2_kernels, size);
}

/* Not one of them has room for the N × N scores: at most so many floats for each row, however long
 * it is. */
TEST(contract, workspace_is_linear)
{
    /* split_kv: 1024 blocks of 4 rows, or fewer blocks than one run makes */
    const int rows_in_flight = 4096;
    for (int seq = 1; seq <= 1 << 24; seq *= 2) {
        for (int seq_q = 1; seq_q <= seq;
             seq_q = seq_q < seq && seq_q * 64 > seq ? seq : seq_q * 64) {
            const struct attention_shape shape = {1, 1, 1, seq_q, seq, 64, false, 0.125f};
            for (const struct attention_kernel *kernel = flash_v2_kernels; kernel->name; kernel++) {
                const size_t bytes = kernel->workspace ? kernel->workspace(&shape) : 0;
                const size_t most = ((size_t)rows_in_flight + seq_q) * (64 + 1) * sizeof(float);
                cr_expect(bytes <= most, "%s: %d queries, %d keys: %zu bytes", kernel->name, seq_q,
                          seq, bytes);
            }
        }
    }
    const struct attention_shape shape = {1, 1, 1, 16384, 16384, 64, false, 0.125f};
    cr_expect(attention_split_kv_workspace(&shape) == 0, "the queries alone fill the grid");
}

/* ---------------------------------------------------------------------------------------------- */
/* What the lesson says about traffic */

static const struct size counted[] = {
    {1, 2, 1, 128, 64, 64},
    {1, 1, 1, 100, 70, 64},
    {2, 2, 1, 17, 33, 20},
    {1, 1, 1, 1, 700, 64},
};
enum { COUNTED = sizeof counted / sizeof *counted };

/* Elements that pass between the chip and global memory when a block owns Br queries: Q, O, LSE
 * once, K and V per block. */
static void flash_v2_traffic(struct size size, long long Br, unsigned long long *read,
                             unsigned long long *written)
{
    const long long heads = size.batch * size.heads, d = size.head_dim;
    *read = (unsigned long long)(heads *
                                 (size.seq_q * d + tiles(size.seq_q, Br) * 2 * size.seq_kv * d));
    *written = (unsigned long long)(heads * size.seq_q * (d + 1));
}

static void expect_flash_v2_traffic(const void *table, const char *name, long long Br)
{
    for (int i = 0; i < COUNTED; i++) {
        const long long sizes[MAX_SIZES] = SIZES(counted[i]);
        struct counters counters;
        unsigned long long read, written;
        if (!ladder_count(&attention_problem, table, name, sizes, &counters))
            return;
        flash_v2_traffic(counted[i], Br, &read, &written);
        cr_expect(counters.global_load_bytes == 4 * read,
                  "%s case %d: %llu bytes read, %llu expected", name, i, counters.global_load_bytes,
                  4 * read);
        cr_expect(counters.global_store_bytes == 4 * written,
                  "%s case %d: %llu bytes written, %llu expected", name, i,
                  counters.global_store_bytes, 4 * written);
    }
}

TEST(counters, flash_v2_traffic)
{
    expect_flash_v2_traffic(flash_v2_kernels, "flash_v2", FLASH_V2_BR);
    expect_flash_v2_traffic(flash_v2_tiles, "flash_v2_16x32", 16);
    expect_flash_v2_traffic(flash_v2_tiles, "flash_v2_32x8", 32);
}

TEST(counters, flash_v2_registers_traffic)
{
    const struct size size = {1, 2, 1, 200, 70, 64};
    struct counters counters;
    unsigned long long read, written;
    if (!count("flash_v2_registers", size, &counters))
        return;
    flash_v2_traffic(size, FLASH_V2_REGISTERS_BR, &read, &written);
    cr_expect(counters.global_load_bytes == 4 * read, "%llu bytes read, %llu expected",
              counters.global_load_bytes, 4 * read);
    cr_expect(counters.global_store_bytes == 4 * written, "%llu bytes written, %llu expected",
              counters.global_store_bytes, 4 * written);
}

/* handout: leaves this out, it runs step 04's kernels too */
static unsigned long long bytes_moved(const void *table, const char *name, const long long *sizes)
{
    struct counters counters;
    ladder_count(&attention_problem, table, name, sizes, &counters);
    return counters.global_load_bytes + counters.global_store_bytes;
}

/* The exchange of the loops alone: the same tile, Br = Bc = 16. */
TEST(counters, less_traffic_than_flash_v1)
{
    static const struct size size[] = {
        {1, 1, 1, 64, 64, 64}, {1, 2, 2, 100, 100, 128}, {2, 2, 1, 48, 160, 16}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        const long long sizes[MAX_SIZES] = SIZES(size[i]);
        const unsigned long long v1 = bytes_moved(flash_v1_tiles, "flash_v1", sizes);
        const unsigned long long v2 = bytes_moved(flash_v2_kernels, "flash_v2", sizes);
        if (v1 == 0)
            return; /* nothing is counted on this backend */
        cr_expect(v2 < v1, "case %zu: flash_v2 moves %llu bytes, flash_v1 %llu", i, v2, v1);
        cr_expect((double)v2 < 0.75 * (double)v1,
                  "case %zu: flash_v2 moves %llu bytes, flash_v1 %llu", i, v2, v1);
    }
}
/* handout: goes on */

TEST(counters, split_kv_traffic)
{
    for (int i = 0; i < COUNTED; i++) {
        const struct size size = counted[i];
        const struct attention_shape shape = shape_of(size);
        const long long kv_heads = size.batch * size.kv_heads, d = size.head_dim;
        /* rows that share a key/value head */
        const long long n = size.heads / size.kv_heads * size.seq_q;
        const long long R = n == 1 ? 1 : SPLIT_KV_R, T = tiles(n, R);
        const long long G = d <= 32 ? 8 : d <= 64 ? 16 : 32;
        const long long workspace = (long long)attention_split_kv_workspace(&shape) / 4;
        const long long s = workspace ? workspace / (kv_heads * n * (d + 1)) : 1;
        long long read = kv_heads * (T * 2 * size.seq_kv * d + s * n * d * 256 / G);
        long long written = kv_heads * n * (d + 1) * s;
        if (s > 1) {
            read += kv_heads * n * s * (d + G);
            written += kv_heads * n * (d + 1);
        }
        struct counters counters;
        if (!count("split_kv", size, &counters))
            return;
        cr_expect(counters.global_load_bytes == 4 * (unsigned long long)read,
                  "case %d: %llu bytes read, %lld expected", i, counters.global_load_bytes,
                  4 * read);
        cr_expect(counters.global_store_bytes == 4 * (unsigned long long)written,
                  "case %d: %llu bytes written, %lld expected", i, counters.global_store_bytes,
                  4 * written);
    }
}

/* Loads of 16 bytes a lane are a quarter of the instructions. */
TEST(counters, wide_loads)
{
    struct counters counters;
    const struct size size = {1, 1, 1, 1, 1024, 64};
    if (!count("split_kv", size, &counters))
        return;
    cr_expect(counters.global_load_sectors == counters.global_load_bytes / 32 ||
                  counters.global_load_sectors < counters.global_load_bytes / 32 + 1024,
              "%llu sectors for %llu bytes", counters.global_load_sectors,
              counters.global_load_bytes);
    cr_expect(counters.global_loads < counters.global_load_bytes / 15, "%llu loads for %llu bytes",
              counters.global_loads, counters.global_load_bytes);
}

TEST(counters, barriers)
{
    const struct size size = {1, 2, 1, 130, 150, 64};
    struct counters counters;
    if (!count("flash_v2", size, &counters))
        return;
    cr_expect(counters.barriers ==
                  (unsigned long long)(2 * tiles(130, FLASH_V2_BR) * 2 * tiles(150, FLASH_V2_BC)),
              "flash_v2: %llu barriers", counters.barriers);
    count("flash_v2_registers", size, &counters);
    cr_expect(counters.barriers == (unsigned long long)(2 * tiles(130, FLASH_V2_REGISTERS_BR) * 4 *
                                                        tiles(150, FLASH_V2_REGISTERS_BC)),
              "flash_v2_registers: %llu barriers", counters.barriers);
}

/* Nobody waits for a bank: the transposed K of flash_v2 is padded, the rows of flash_v2_registers
 * are. */
TEST(counters, no_bank_conflicts)
{
    const struct size size = {1, 1, 1, 130, 70, 64};
    for (const struct attention_kernel *kernel = flash_v2_kernels; kernel->workspace == NULL;
         kernel++) {
        struct counters counters;
        if (!count(kernel->name, size, &counters))
            return;
        cr_expect(counters.shared_wavefronts == counters.shared_wavefronts_ideal,
                  "%s: %llu wavefronts, ideally %llu", kernel->name, counters.shared_wavefronts,
                  counters.shared_wavefronts_ideal);
    }
}
