/*
 * These test each instruction of common/device/gpu/ptx.cuh alone on random data. The results must
 * be what a model in plain C says, and what one NVIDIA H200 gave for the same data (see the README
 * in ptx/vectors/). Moves of data are compared bit for bit, arithmetic within the roundings that it
 * may have. On the CPU backend everything runs in three thread orders, and a kernel with a mistake
 * must give the report that names it.
 */
#include "box_cases.h"
#include "tests/simt/counted.h"

/* ---- copies and matrices of words ---- */

TEST(ptx, cp_async)
{
    uint32_t in[COPY_ASYNC_WORDS], expected[COPY_ASYNC_WORDS];
    random_words(in, COPY_ASYNC_WORDS, 1);
    for (int i = 0; i < 128; i++) {
        const int lane = i / 4, word = i % 4;
        expected[i] = word < lane % 5 ? in[i] : 0;
        expected[160 + i] = in[160 + (31 - lane) * 4 + word];
    }
    for (int i = 0; i < 32; i++) {
        expected[128 + i] = i % 2 ? in[128 + i] : 0;
        expected[288 + i] = in[288 + i];
    }
    expect_words_of("cp_async", ptx_copy_async, in, COPY_ASYNC_WORDS, expected, COPY_ASYNC_WORDS);
}

/* Returns element [row][col] of matrices that lie in rows of eight halves. */
static uint32_t half_at(const uint32_t *words, int row, int col)
{
    return words[4 * row + col / 2] >> 16 * (col % 2) & 0xffff;
}

CONDITIONAL_TEST(ptx, ldmatrix, has_architecture(75, false))
{
    uint32_t in[128], expected[256];
    random_words(in, 128, 2);
    for (int lane = 0; lane < 32; lane++)
        for (int matrix = 0; matrix < 4; matrix++) {
            const int first = 8 * matrix, g = lane / 4, t = lane % 4;
            expected[4 * lane + matrix] =
                half_at(in, first + g, 2 * t) | half_at(in, first + g, 2 * t + 1) << 16;
            expected[128 + 4 * lane + matrix] =
                half_at(in, first + 2 * t, g) | half_at(in, first + 2 * t + 1, g) << 16;
        }
    expect_words_of("ldmatrix", ptx_ldmatrix, in, 128, expected, 256);
}

CONDITIONAL_TEST(ptx, stmatrix, has_architecture(90, false))
{
    uint32_t in[128], expected[128];
    random_words(in, 128, 3);
    for (int row = 0; row < 32; row++)
        for (int word = 0; word < 4; word++)
            expected[4 * MATRIX_PLACE(row) + word] = in[4 * (row % 8 * 4 + word) + row / 8];
    expect_words_of("stmatrix", ptx_stmatrix, in, 128, expected, 128);
}

/* ---- additions to memory ---- */

/* The sums are of small whole numbers, so no order of additions rounds. */
static void test_additions(ptx_kernel *kernel, int places)
{
    uint32_t in[256 + 64], out[64] = {0};
    float expected[64] = {0};
    for (int i = 0; i < 256 + places; i++) {
        const float addend = (float)(i * 37 % 101 - 50);
        in[i] = bits_of(addend);
        expected[i % places] += addend;
    }
    run(kernel, in, 256 + places, out, places);
    for (int i = 0; i < places; i++)
        cr_assert_eq(out[i], bits_of(expected[i]), "place %d", i);
}

CONDITIONAL_TEST(ptx, red_add, has_architecture(75, false))
{
    test_additions(ptx_red_add, 32);
}

CONDITIONAL_TEST(ptx, bulk_add, has_architecture(90, false))
{
    test_additions(ptx_bulk_add, 64);
}

/* ---- products by a warp ---- */

CONDITIONAL_TEST(ptx, movmatrix, has_architecture(75, false))
{
    uint32_t in[32], expected[64];
    random_words(in, 32, 14);
    for (int lane = 0; lane < 32; lane++) {
        const int row = lane / 4, col = lane % 4 * 2;
        expected[lane] = half_at(in, col, row) | half_at(in, col + 1, row) << 16;
        expected[32 + lane] = in[lane];
    }
    expect_words_of("movmatrix", ptx_movmatrix, in, 32, expected, 64);
}

static void test_mma(const char *name, ptx_kernel *kernel, bool bfloat16)
{
    uint32_t in[320], out[128] = {0};
    uint16_t A[16][16], B[16][8];
    float C[16][8];
    for (int i = 0; i < 256; i++)
        A[i / 16][i % 16] = random_element(4, i, bfloat16);
    for (int i = 0; i < 128; i++) {
        B[i / 8][i % 8] = random_element(5, i, bfloat16);
        C[i / 8][i % 8] = random_float(6, i);
    }
    double expected[128], bound[128];
    for (int lane = 0; lane < 32; lane++) {
        const int g = lane / 4, t = lane % 4;
        uint32_t *a = &in[10 * lane], *b = a + 4, *c = b + 2;
        for (int i = 0; i < 4; i++) {
            const int row = g + i % 2 * 8, k = 2 * t + i / 2 * 8;
            a[i] = A[row][k] | (uint32_t)A[row][k + 1] << 16;
        }
        for (int i = 0; i < 2; i++)
            b[i] = B[2 * t + 8 * i][g] | (uint32_t)B[2 * t + 8 * i + 1][g] << 16;
        for (int i = 0; i < 4; i++) {
            const int row = g + i / 2 * 8, col = 2 * t + i % 2;
            struct sum sum = {0};
            c[i] = bits_of(C[row][col]);
            add(&sum, C[row][col]);
            for (int k = 0; k < 16; k++)
                add(&sum, element_value(A[row][k], bfloat16) * element_value(B[k][col], bfloat16));
            expected[4 * lane + i] = sum.value;
            bound[4 * lane + i] = bound_of(&sum);
        }
    }
    run(kernel, in, 320, out, 128);
    expect_floats(name, out, expected, bound, 128);
}

CONDITIONAL_TEST(ptx, mma, has_architecture(80, false))
{
    test_mma("mma", ptx_mma, false);
    test_mma("mma_bfloat16", ptx_mma_bfloat16, true);
}

CONDITIONAL_TEST(ptx, wmma, has_architecture(75, false))
{
    static uint32_t in[WMMA_IN], out[WMMA_OUT];
    static double expected[WMMA_OUT], bound[WMMA_OUT];
    uint16_t A[256], B[256];
    for (int i = 0; i < 256; i++) {
        A[i] = random_half(7, i);
        B[i] = random_half(8, i);
        in[256 + i] = bits_of(random_float(9, i));
        in[512 + i] = bits_of(random_float(10, i));
    }
    memcpy(in, A, sizeof A);
    memcpy(in + 128, B, sizeof B);
    for (int variant = 0; variant < WMMA_VARIANTS; variant++)
        for (int row = 0; row < 16; row++)
            for (int col = 0; col < 16; col++) {
                struct sum sum = {0};
                add(&sum, float_of(in[256 + 16 * row + col]));
                for (int k = 0; k < 16; k++)
                    add(&sum, half_value(A[variant & 1 ? 16 * k + row : 16 * row + k]) *
                                  half_value(B[variant & 2 ? 16 * col + k : 16 * k + col]));
                const double factor = float_of(in[512 + 16 * row + col]);
                const int at = 256 * variant + (variant & 4 ? 16 * col + row : 16 * row + col);
                expected[at] = sum.value * factor;
                bound[at] = (bound_of(&sum) + FLT_EPSILON * fabs(sum.value)) * fabs(factor);
            }
    run(ptx_wmma, in, WMMA_IN, out, WMMA_OUT);
    expect_floats("wmma", out, expected, bound, WMMA_OUT);
}

/* ---- arithmetic ---- */

TEST(ptx, exp2)
{
    static uint32_t in[EXP2_COUNT], out[EXP2_COUNT];
    static double expected[EXP2_COUNT], bound[EXP2_COUNT];
    for (int i = 0; i < EXP2_COUNT; i++) {
        const float x = i == 0   ? -INFINITY
                        : i == 1 ? -1000.0f
                        : i == 2 ? 0.0f
                                 : -130.0f + i * (150.0f / EXP2_COUNT);
        in[i] = bits_of(x);
        expected[i] = exp2(x) < FLT_MIN ? 0.0 : exp2(x);
        bound[i] = expected[i] * ldexp(1, -21);
    }
    run(ptx_exp2, in, EXP2_COUNT, out, EXP2_COUNT);
    expect_floats("exp2", out, expected, bound, EXP2_COUNT);
}

/* Every other factor is 1. */
TEST(ptx, multiply_unless_one)
{
    enum { PRODUCTS = EXP2_COUNT / 2 };
    static uint32_t in[EXP2_COUNT], expected[PRODUCTS];
    for (int i = 0; i < PRODUCTS; i++) {
        const float x = i == 2 ? -INFINITY : 1.5f * i - 40.0f;
        const float factor = i % 2 == 0 ? 1.0f : 0.001f * i;
        in[2 * i] = bits_of(x);
        in[2 * i + 1] = bits_of(factor);
        expected[i] = bits_of(x * factor);
    }
    expect_words_of("multiply_unless_one", ptx_multiply_unless_one, in, EXP2_COUNT, expected,
                    PRODUCTS);
}

/* ---- barriers and registers ---- */

CONDITIONAL_TEST(ptx, mbarrier, has_architecture(90, false))
{
    enum { WORDS = 32 * HANDSHAKES };
    uint32_t in[WORDS], expected[WORDS];
    random_words(in, WORDS, 11);
    for (int i = 0; i < WORDS; i++)
        expected[i] = in[i / 32 * 32 + 31 - i % 32] + i / 32;
    expect_words_of("mbarrier", ptx_mbarrier, in, WORDS, expected, WORDS);
}

TEST(ptx, named_barrier)
{
    uint32_t in[32], expected[32];
    random_words(in, 32, 12);
    for (int i = 0; i < 32; i++)
        expected[i] = in[i] + 3;
    expect_words_of("named_barrier", ptx_named_barrier, in, 32, expected, 32);
}

CONDITIONAL_TEST(ptx, cluster, has_architecture(90, false))
{
    enum { BLOCKS = CLUSTERS * CLUSTER_BLOCKS, IN = 64 * BLOCKS, OUT = CLUSTER_OUT * BLOCKS };
    static uint32_t in[IN], expected[OUT];
    random_words(in, IN, 14);
    for (int block = 0; block < BLOCKS; block++) {
        const int rank = block % CLUSTER_BLOCKS, first = block - rank;
        uint32_t *received = expected + block * CLUSTER_OUT;
        for (int peer = 0; peer < CLUSTER_BLOCKS; peer++)
            for (int lane = 0; lane < 32; lane++) {
                const uint32_t *sent = in + 64 * (first + peer) + 2 * (31 - lane);
                received[64 * peer + 2 * lane] = sent[0];
                received[64 * peer + 2 * lane + 1] = sent[1] + (uint32_t)rank;
            }
        received[CLUSTER_OUT - 2] = (uint32_t)rank;
        received[CLUSTER_OUT - 1] = CLUSTER_BLOCKS;
    }
    expect_words_of("cluster", ptx_cluster, in, IN, expected, OUT);
}

TEST(ptx, lane)
{
    uint32_t in[32], out[96];
    random_words(in, 32, 15);
    run(ptx_lane, in, 32, out, 96);
    for (int i = 0; i < 96; i++)
        cr_assert_eq(out[i], in[i % 32], "thread %d", i);
}

CONDITIONAL_TEST(ptx, registers, has_architecture(90, true))
{
    uint32_t in[64], expected[256], sum = 0;
    random_words(in, 64, 13);
    for (int i = 0; i < 64; i++)
        sum += in[i];
    for (int i = 0; i < 256; i++)
        expected[i] = sum;
    expect_words_of("registers", ptx_registers, in, 64, expected, 256);
}

/* ---- what the checked build counts ---- */

TEST(ptx, counted)
{
    struct counters c;
    if (!backend_counters(&c)) {
        fprintf(stderr, "skipped: the %s build does not count\n", backend_name());
        return;
    }
    static uint32_t words[MAX_WORDS];
    uint32_t *in = upload(words, MAX_WORDS), *out = upload(words, MAX_WORDS);

    c = counted(ptx_ldmatrix(in, out));
    EXPECT(c, shared_loads, 2 * 32);
    EXPECT(c, shared_stores, 4 * 32);
    /* A wavefront reads eight rows. The stores go to every fourth bank, eight lanes to one. */
    EXPECT(c, shared_wavefronts, 2 * 4 + 4 * 4);
    EXPECT(c, shared_wavefronts_ideal, 2 * 4 + 4);

    c = counted(ptx_mma(in, out));
    EXPECT(c, matrix_multiplies, 16 * 8 * 16);

    c = counted(ptx_copy_async(in, out));
    EXPECT(c, global_load_bytes, 32 / 5 * (4 + 8 + 12 + 16) + 4 + 16 * 4 + 32 * 16 + 32 * 4);

    c = counted(ptx_cluster(in, out));
    EXPECT(c, shared_stores, CLUSTERS * CLUSTER_BLOCKS / 2 * (32 + 16) * CLUSTER_BLOCKS);
    EXPECT(c, barriers, CLUSTERS * CLUSTER_BLOCKS * 2);

    const struct box_case *box = &box_cases[4]; /* 32 of 64 columns and 8 of 16 rows lie inside */
    const CUtensorMap map = map_of(in, box);
    c = counted(ptx_tma_load(&map, box->x, box->y, box->z, 4 * box_words(box), out));
    EXPECT(c, global_loads, 1);
    EXPECT(c, global_load_requests, 1);
    EXPECT(c, global_load_bytes, 8 * 64);
    EXPECT(c, shared_stores, 1);
    EXPECT(c, shared_loads, box_words(box));
    cudaFree(in);
    cudaFree(out);
}
