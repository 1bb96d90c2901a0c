/*
 * The instructions of common/ptx.cuh, each alone on random data: what comes out must be what a
 * model in plain C says, and what one NVIDIA H200 gave for the same data (ptx/vectors/, see the
 * README there). Moves of data are compared bit for bit, arithmetic within the roundings that it
 * may have. On the CPU backend everything runs in three thread orders, and a kernel with a mistake
 * must give the report that names it.
 */
#include "harness.h"
#include "backend.h"
#include "inputs.h"
#include "ptx/ptx_kernels.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool on_gpu(void)
{
    return strcmp(backend_name(), "gpu") == 0;
}

/* sm_90a has what later architectures do not. */
static bool has_architecture(int needed, bool exactly)
{
    const int device = backend_architecture();
    if (exactly ? device == needed : device >= needed)
        return true;
    fprintf(stderr, "skipped: needs sm_%d%s (this device is sm_%d)\n", needed, exactly ? "a" : "",
            device);
    return false;
}

/* ---- running a kernel ---- */

static uint32_t *upload(const uint32_t *words, size_t count)
{
    uint32_t *device = NULL;
    cr_assert_eq(cudaMalloc((void **)&device, count * sizeof *device), cudaSuccess);
    cr_assert_eq(cudaMemcpy(device, words, count * sizeof *device, cudaMemcpyHostToDevice),
                 cudaSuccess);
    return device;
}

static void download(uint32_t *words, const uint32_t *device, size_t count)
{
    cr_assert_eq(cudaMemcpy(words, device, count * sizeof *device, cudaMemcpyDeviceToHost),
                 cudaSuccess);
}

static void assert_success(cudaError_t status)
{
    cr_assert_eq(status, cudaSuccess, "%s %s", cudaGetErrorName(status), backend_report());
}

static const char *const orders[] = {"inorder", "reversed", "random:1"};
enum { ORDERS = sizeof orders / sizeof *orders };

/* Runs the kernel in all orders, which must not matter. */
static void run(ptx_kernel *kernel, const uint32_t *in, size_t in_words, uint32_t *out,
                size_t out_words)
{
    uint32_t *again = malloc(out_words * sizeof *again);
    uint32_t *device_in = upload(in, in_words), *device_out = upload(out, out_words);
    for (int order = 0; order < ORDERS; order++) {
        setenv("SIMT_ORDER", orders[order], 1);
        assert_success(kernel(device_in, device_out));
        download(order == 0 ? out : again, device_out, out_words);
        cr_assert(order == 0 || memcmp(out, again, out_words * sizeof *out) == 0,
                  "order %s differs", orders[order]);
    }
    cudaFree(device_in);
    cudaFree(device_out);
    free(again);
}

static void random_words(uint32_t *words, size_t count, uint64_t stream)
{
    for (size_t i = 0; i < count; i++)
        words[i] = (uint32_t)input_bits(1, stream, i);
}

/* ---- what a GPU gave: tests/ptx/vectors ---- */

enum { VECTOR_WORDS = 512 };

/* Of a longer result every so many words are kept. */
static size_t vector_step(size_t count)
{
    return (count + VECTOR_WORDS - 1) / VECTOR_WORDS;
}

static void write_vector(const char *path, const uint32_t *words, size_t count)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s cannot be written", path);
    for (size_t i = 0; i < count; i += vector_step(count))
        fprintf(file, "%08" PRIx32 "\n", words[i]);
    fclose(file);
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/*
 * Compares a result with the one of a GPU, bit for bit, or as floats that may differ from the exact
 * result by bound[i], so from each other by twice that. With PTX_VECTORS=DIRECTORY results are
 * written there instead.
 */
static void compare_with_gpu(const char *name, const uint32_t *words, size_t count,
                             const double *bound)
{
    const char *write_to = getenv("PTX_VECTORS");
    char path[512];
    snprintf(path, sizeof path, "%s/%s.txt", write_to != NULL ? write_to : "tests/ptx/vectors",
             name);
    if (write_to != NULL) {
        write_vector(path, words, count);
        return;
    }
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "skipped: no GPU's result in %s\n", path);
        return;
    }
    for (size_t i = 0; i < count; i += vector_step(count)) {
        uint32_t expected;
        cr_assert_eq(fscanf(file, "%" SCNx32, &expected), 1, "%s ends at word %zu", path, i);
        if (bound == NULL)
            cr_assert_eq(words[i], expected, "%s: word %zu is %08" PRIx32 ", on a GPU %08" PRIx32,
                         name, i, words[i], expected);
        else
            cr_assert(fabs((double)float_of(words[i]) - float_of(expected)) <= 2 * bound[i],
                      "%s: element %zu is %.9g, on a GPU %.9g, bound %g", name, i,
                      float_of(words[i]), float_of(expected), bound[i]);
    }
    fclose(file);
}

static void expect_words(const char *name, const uint32_t *words, const uint32_t *expected,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(words[i], expected[i], "%s: word %zu is %08" PRIx32 ", expected %08" PRIx32,
                     name, i, words[i], expected[i]);
    compare_with_gpu(name, words, count, NULL);
}

static void expect_floats(const char *name, const uint32_t *words, const double *expected,
                          const double *bound, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert(fabs(float_of(words[i]) - expected[i]) <= bound[i],
                  "%s: element %zu is %.9g, expected %.9g, bound %g", name, i, float_of(words[i]),
                  expected[i], bound[i]);
    compare_with_gpu(name, words, count, bound);
}

/* ---- halves ---- */

/* Between 2^-6 and 4 in magnitude, with some zeros and some subnormal numbers. */
static uint16_t random_half(uint64_t stream, uint64_t index)
{
    const uint64_t bits = input_bits(2, stream, index);
    const unsigned choice = bits >> 32 & 63, fraction = bits & 0x3ff, sign = bits >> 10 & 1;
    const unsigned exponent = choice < 2 ? 0 : 9 + (unsigned)(bits >> 16) % 8;
    return (uint16_t)(sign << 15 | exponent << 10 | (choice == 0 ? 0 : fraction));
}

static double half_value(uint16_t half)
{
    const int exponent = half >> 10 & 31, fraction = half & 0x3ff;
    const double magnitude =
        exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

static float random_float(uint64_t stream, uint64_t index)
{
    return (float)input_normal(3, stream, index);
}

/*
 * An element of A * B + C in double, and how far a float result may be from it. The products are
 * exact. Each of them, and C, is added with one rounding here, or on a GPU aligned to the largest
 * and cut off: at most an ulp of the magnitudes' sum, 2^-23 of it, for each.
 */
struct sum {
    double value, magnitude;
    int terms;
};

static void add(struct sum *sum, double term)
{
    sum->value += term;
    sum->magnitude += fabs(term);
    sum->terms++;
}

static double bound_of(const struct sum *sum)
{
    return sum->terms * FLT_EPSILON * sum->magnitude;
}

/* ---- copies and matrices of words ---- */

TEST(ptx, cp_async)
{
    uint32_t in[COPY_ASYNC_WORDS], out[COPY_ASYNC_WORDS] = {0}, expected[COPY_ASYNC_WORDS];
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
    run(ptx_copy_async, in, COPY_ASYNC_WORDS, out, COPY_ASYNC_WORDS);
    expect_words("cp_async", out, expected, COPY_ASYNC_WORDS);
}

/* Element [row][col] of the matrices that lie in rows of eight halves. */
static uint32_t half_at(const uint32_t *words, int row, int col)
{
    return words[4 * row + col / 2] >> 16 * (col % 2) & 0xffff;
}

TEST(ptx, ldmatrix)
{
    if (!has_architecture(75, false))
        return;
    uint32_t in[128], out[256] = {0}, expected[256];
    random_words(in, 128, 2);
    for (int lane = 0; lane < 32; lane++)
        for (int matrix = 0; matrix < 4; matrix++) {
            const int first = 8 * matrix, g = lane / 4, t = lane % 4;
            expected[4 * lane + matrix] =
                half_at(in, first + g, 2 * t) | half_at(in, first + g, 2 * t + 1) << 16;
            expected[128 + 4 * lane + matrix] =
                half_at(in, first + 2 * t, g) | half_at(in, first + 2 * t + 1, g) << 16;
        }
    run(ptx_ldmatrix, in, 128, out, 256);
    expect_words("ldmatrix", out, expected, 256);
}

TEST(ptx, stmatrix)
{
    if (!has_architecture(90, false))
        return;
    uint32_t in[128], out[128] = {0}, expected[128];
    random_words(in, 128, 3);
    for (int row = 0; row < 32; row++)
        for (int word = 0; word < 4; word++)
            expected[4 * MATRIX_PLACE(row) + word] = in[4 * (row % 8 * 4 + word) + row / 8];
    run(ptx_stmatrix, in, 128, out, 128);
    expect_words("stmatrix", out, expected, 128);
}

/* ---- products by a warp ---- */

TEST(ptx, movmatrix)
{
    if (!has_architecture(75, false))
        return;
    uint32_t in[32], out[64] = {0}, expected[64];
    random_words(in, 32, 14);
    for (int lane = 0; lane < 32; lane++) {
        const int row = lane / 4, col = lane % 4 * 2;
        expected[lane] = half_at(in, col, row) | half_at(in, col + 1, row) << 16;
        expected[32 + lane] = in[lane];
    }
    run(ptx_movmatrix, in, 32, out, 64);
    expect_words("movmatrix", out, expected, 64);
}

TEST(ptx, mma)
{
    if (!has_architecture(80, false))
        return;
    uint32_t in[320], out[128] = {0};
    uint16_t A[16][16], B[16][8];
    float C[16][8];
    for (int i = 0; i < 256; i++)
        A[i / 16][i % 16] = random_half(4, i);
    for (int i = 0; i < 128; i++) {
        B[i / 8][i % 8] = random_half(5, i);
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
                add(&sum, half_value(A[row][k]) * half_value(B[k][col]));
            expected[4 * lane + i] = sum.value;
            bound[4 * lane + i] = bound_of(&sum);
        }
    }
    run(ptx_mma, in, 320, out, 128);
    expect_floats("mma", out, expected, bound, 128);
}

TEST(ptx, wmma)
{
    if (!has_architecture(75, false))
        return;
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

/* ---- barriers and registers ---- */

TEST(ptx, mbarrier)
{
    if (!has_architecture(90, false))
        return;
    enum { WORDS = 32 * HANDSHAKES };
    uint32_t in[WORDS], out[WORDS] = {0}, expected[WORDS];
    random_words(in, WORDS, 11);
    for (int i = 0; i < WORDS; i++)
        expected[i] = in[i / 32 * 32 + 31 - i % 32] + i / 32;
    run(ptx_mbarrier, in, WORDS, out, WORDS);
    expect_words("mbarrier", out, expected, WORDS);
}

TEST(ptx, named_barrier)
{
    uint32_t in[32], out[32] = {0}, expected[32];
    random_words(in, 32, 12);
    for (int i = 0; i < 32; i++)
        expected[i] = in[i] + 3;
    run(ptx_named_barrier, in, 32, out, 32);
    expect_words("named_barrier", out, expected, 32);
}

TEST(ptx, cluster)
{
    if (!has_architecture(90, false))
        return;
    enum { BLOCKS = CLUSTERS * CLUSTER_BLOCKS, IN = 64 * BLOCKS, OUT = CLUSTER_OUT * BLOCKS };
    static uint32_t in[IN], out[OUT], expected[OUT];
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
    run(ptx_cluster, in, IN, out, OUT);
    expect_words("cluster", out, expected, OUT);
}

TEST(ptx, registers)
{
    if (!has_architecture(90, true))
        return;
    uint32_t in[64], out[256] = {0}, expected[256], sum = 0;
    random_words(in, 64, 13);
    for (int i = 0; i < 64; i++)
        sum += in[i];
    for (int i = 0; i < 256; i++)
        expected[i] = sum;
    run(ptx_registers, in, 64, out, 256);
    expect_words("registers", out, expected, 256);
}

/* ---- bulk tensor copies ---- */

typedef CUresult encode_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                           const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                           const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static encode_fn *encoder(void)
{
    void *function = NULL;
    encode_fn *encode;
    enum cudaDriverEntryPointQueryResult result;
    assert_success(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                    cudaEnableDefault, &result));
    cr_assert_not_null(function);
    memcpy(&encode, &function, sizeof encode);
    return encode;
}

/* An array of 2-byte elements, [depth][height][width] with rows `pitch` elements apart, and a box
 * of it. */
struct box_case {
    const char *name;
    CUtensorMapSwizzle swizzle;
    int depth, height, width, pitch;
    int box_depth, box_height, box_width;
    int x, y, z;
};

static const struct box_case box_cases[] = {
    {"tma_none", CU_TENSOR_MAP_SWIZZLE_NONE, 3, 10, 40, 48, 2, 4, 24, 8, 3, 1},
    {"tma_32", CU_TENSOR_MAP_SWIZZLE_32B, 3, 20, 40, 40, 1, 16, 16, 16, 2, 2},
    {"tma_64", CU_TENSOR_MAP_SWIZZLE_64B, 3, 20, 40, 40, 2, 8, 32, 16, 7, 0},
    {"tma_128", CU_TENSOR_MAP_SWIZZLE_128B, 2, 40, 64, 64, 1, 32, 64, 0, 8, 1},
    {"tma_past_the_end", CU_TENSOR_MAP_SWIZZLE_128B, 2, 20, 72, 72, 1, 16, 64, 40, 12, 1},
    {"tma_before_the_begin", CU_TENSOR_MAP_SWIZZLE_128B, 2, 20, 72, 72, 2, 16, 64, -8, -5, -1},
    {"tma_outside", CU_TENSOR_MAP_SWIZZLE_64B, 2, 20, 72, 72, 1, 8, 32, 104, 3, 2},
};
enum { BOX_CASES = sizeof box_cases / sizeof *box_cases };

static CUresult describe(CUtensorMap *map, void *array, const struct box_case *c)
{
    const cuuint64_t sizes[3] = {(cuuint64_t)c->width, (cuuint64_t)c->height, (cuuint64_t)c->depth};
    const cuuint64_t strides[2] = {(cuuint64_t)c->pitch * 2, (cuuint64_t)c->pitch * c->height * 2};
    const cuuint32_t box[3] = {(cuuint32_t)c->box_width, (cuuint32_t)c->box_height,
                               (cuuint32_t)c->box_depth};
    const cuuint32_t ones[3] = {1, 1, 1};
    return encoder()(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, array, sizes, strides, box, ones,
                     CU_TENSOR_MAP_INTERLEAVE_NONE, c->swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static int array_words(const struct box_case *c)
{
    return c->depth * c->height * c->pitch / 2;
}

static int box_words(const struct box_case *c)
{
    return c->box_depth * c->box_height * c->box_width / 2;
}

/* Where element (x, y, z) of the box lies in shared memory, in elements: rows follow each other,
 * then 16-byte chunks of eight elements change places within 32, 64 or 128 bytes, as the 128-byte
 * line says that they lie in. */
static int box_place(const struct box_case *c, int x, int y, int z)
{
    static const int chunks[] = {1, 2, 4, 8};
    const int place = (z * c->box_height + y) * c->box_width + x;
    return place ^ place / 64 % chunks[c->swizzle] * 8;
}

/* Where it lies in the array, or -1: outside. */
static int array_place(const struct box_case *c, int x, int y, int z)
{
    x += c->x;
    y += c->y;
    z += c->z;
    if (x < 0 || x >= c->width || y < 0 || y >= c->height || z < 0 || z >= c->depth)
        return -1;
    return (z * c->height + y) * c->pitch + x;
}

#define FOR_BOX(c, x, y, z)                                                                        \
    for (int z = 0; z < (c)->box_depth; z++)                                                       \
        for (int y = 0; y < (c)->box_height; y++)                                                  \
            for (int x = 0; x < (c)->box_width; x++)

enum { MAX_WORDS = 8192 };

TEST(ptx, tma_load)
{
    if (!has_architecture(90, false))
        return;
    static uint32_t array[MAX_WORDS], out[MAX_WORDS], expected[MAX_WORDS];
    for (int i = 0; i < BOX_CASES; i++) {
        const struct box_case *c = &box_cases[i];
        const int words = box_words(c);
        random_words(array, array_words(c), 20 + i);
        FOR_BOX(c, x, y, z)
        {
            const int from = array_place(c, x, y, z);
            ((uint16_t *)expected)[box_place(c, x, y, z)] =
                from < 0 ? 0 : ((uint16_t *)array)[from];
        }
        uint32_t *device_array = upload(array, array_words(c)), *device_out = upload(out, words);
        CUtensorMap map;
        cr_assert_eq(describe(&map, device_array, c), CUDA_SUCCESS, "%s: %s", c->name,
                     backend_report());
        for (int order = 0; order < ORDERS; order++) {
            setenv("SIMT_ORDER", orders[order], 1);
            assert_success(ptx_tma_load(&map, c->x, c->y, c->z, 4 * words, device_out));
            download(out, device_out, words);
            expect_words(c->name, out, expected, words);
        }
        cudaFree(device_array);
        cudaFree(device_out);
    }
}

TEST(ptx, tma_store)
{
    if (!has_architecture(90, false))
        return;
    static uint32_t box[MAX_WORDS], before[MAX_WORDS], array[MAX_WORDS], expected[MAX_WORDS];
    for (int i = 0; i < BOX_CASES; i++) {
        const struct box_case *c = &box_cases[i];
        const int words = array_words(c);
        if (c->x < 0)
            /* an H200 clips a store past the end, and calls one before the beginning illegal */
            continue;
        char name[64];
        snprintf(name, sizeof name, "%s_store", c->name);
        random_words(box, box_words(c), 40 + i);
        random_words(before, words, 60 + i);
        memcpy(expected, before, sizeof expected);
        FOR_BOX(c, x, y, z)
        {
            const int to = array_place(c, x, y, z);
            if (to >= 0)
                ((uint16_t *)expected)[to] = ((uint16_t *)box)[box_place(c, x, y, z)];
        }
        uint32_t *device_box = upload(box, box_words(c)), *device_array = upload(before, words);
        CUtensorMap map;
        cr_assert_eq(describe(&map, device_array, c), CUDA_SUCCESS, "%s: %s", c->name,
                     backend_report());
        assert_success(ptx_tma_store(&map, c->x, c->y, c->z, 4 * box_words(c), device_box));
        download(array, device_array, words);
        expect_words(name, array, expected, words);
        cudaFree(device_box);
        cudaFree(device_array);
    }
}

/* The encoder says no to what the copy engine cannot do. */
TEST(ptx, tensor_map_refused)
{
    if (!has_architecture(90, false))
        return;
    static const struct box_case bad[] = {
        {"the row is longer than the swizzle", CU_TENSOR_MAP_SWIZZLE_64B, 1, 20, 64, 64, 1, 8, 64,
         0, 0, 0},
        {"the row is no multiple of 16 bytes", CU_TENSOR_MAP_SWIZZLE_NONE, 1, 20, 64, 64, 1, 8, 12,
         0, 0, 0},
        {"the stride is no multiple of 16 bytes", CU_TENSOR_MAP_SWIZZLE_NONE, 1, 20, 20, 20, 1, 8,
         16, 0, 0, 0},
        {"the box is too high", CU_TENSOR_MAP_SWIZZLE_NONE, 1, 300, 64, 64, 1, 257, 16, 0, 0, 0},
        {"the box is empty", CU_TENSOR_MAP_SWIZZLE_NONE, 1, 20, 64, 64, 1, 0, 16, 0, 0, 0},
        {"the array is empty", CU_TENSOR_MAP_SWIZZLE_NONE, 1, 0, 64, 64, 1, 8, 16, 0, 0, 0},
    };
    static uint32_t words[1024];
    uint32_t *array = upload(words, 1024);
    CUtensorMap map;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_eq(describe(&map, array, &bad[i]), CUDA_ERROR_INVALID_VALUE, "%s", bad[i].name);
    cr_expect_eq(describe(&map, (char *)array + 8, &box_cases[3]), CUDA_ERROR_INVALID_VALUE,
                 "misaligned array");
    cudaFree(array);
}

/* ---- products by a warpgroup ---- */

enum { STEPS_K = 16 * WGMMA_STEPS };

/*
 * The byte where element (i, k) of an operand lies: i along M or N, k along K. The formulas are the
 * PTX manual's canonical layouts ("Strides", for 2-byte elements), T = 8 elements of 16 bytes. Rows
 * of a swizzled operand are as long as the span; a span of 32 bytes holds only 16 k, so the second
 * step's lie behind all of the first's.
 */
struct operand {
    int span; /* bytes; 0: no swizzle */
    bool k_along_memory;
    int begin, leading, stride, step;
};

static int element_place(const struct operand *o, int i, int k)
{
    const int in_step = k % 16, step = k / 16;
    int place = step * o->step;
    if (o->k_along_memory) {
        if (o->span == 0)
            return o->begin + place + i / 8 * o->stride + i % 8 * 16 + in_step / 8 * o->leading +
                   k % 8 * 2;
        place += i / 8 * o->stride + i % 8 * o->span + in_step * 2;
    } else {
        const int per_row = o->span / 2; /* elements of i that lie side by side */
        if (o->span == 0)
            return o->begin + place + i / 8 * o->stride + i % 8 * 2 + in_step / 8 * o->leading +
                   k % 8 * 16;
        place +=
            i / per_row * o->leading + i % per_row * 2 + in_step / 8 * o->stride + k % 8 * o->span;
    }
    const int chunk = place / 16, line = place / 128;
    return o->begin + (chunk ^ line % (o->span / 16)) * 16 + place % 16;
}

static const int spans[] = {0, 128, 64, 32}; /* by the descriptor's bits 62 and 63 */

/* Of `rows` elements along M or N and STEPS_K along K, tightly packed from `begin` on. */
static struct operand pack(int swizzle, bool k_along_memory, int rows, int begin)
{
    const int span = spans[swizzle];
    if (k_along_memory) {
        if (span == 0) /* 8 x 8 pieces: all of one k, then the next */
            return (struct operand){0, true, begin, rows * 16, 128, rows * 32};
        return (struct operand){span, true, begin, 0, 8 * span, span == 32 ? rows * span : 32};
    }
    if (span == 0) /* 8 x 8 pieces: all of eight k, then the next eight */
        return (struct operand){0, false, begin, rows * 16, 128, rows * 32};
    /* panels of one span, each with all k */
    return (struct operand){span, false, begin, STEPS_K * span, 8 * span, 16 * span};
}

static void place_operand(char *image, const struct operand *o, const uint16_t *elements, int rows)
{
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < STEPS_K; k++) {
            const int place = element_place(o, i, k);
            cr_assert(place >= 0 && place + 2 <= WGMMA_IMAGE);
            memcpy(image + place, &elements[i * STEPS_K + k], 2);
        }
}

typedef cudaError_t wgmma_kernel(const uint32_t *in, uint32_t *out, struct wgmma_layout layout);

static wgmma_kernel *wgmma_now;
static struct wgmma_layout wgmma_layout_now;

static cudaError_t run_wgmma(const uint32_t *in, uint32_t *out)
{
    return wgmma_now(in, out, wgmma_layout_now);
}

static void test_wgmma(const char *name, wgmma_kernel *kernel, int n, bool a_in_registers,
                       int swizzle, int accumulate)
{
    static uint16_t A[64 * STEPS_K], B[256 * STEPS_K];
    static uint32_t in[WGMMA_IMAGE / 4 + 128 * (4 * WGMMA_STEPS + 128)], out[128 * 128];
    static double expected[128 * 128], bound[128 * 128];
    for (int i = 0; i < 64 * STEPS_K; i++)
        A[i] = random_half(14, i);
    for (int i = 0; i < n * STEPS_K; i++)
        B[i] = random_half(15, i);

    /* Operands that lie in shared memory, at multiples of 1024; what lies between is random and not
     * to be read. */
    random_words(in, WGMMA_IMAGE / 4, 16);
    const struct operand a = pack(swizzle, true, 64, 1024),
                         b = pack(swizzle, !a_in_registers, n, 16384);
    if (!a_in_registers)
        place_operand((char *)in, &a, A, 64);
    place_operand((char *)in, &b, B, n);

    const int a_words = a_in_registers ? 4 * WGMMA_STEPS : 0, d_words = n / 2;
    for (int thread = 0; thread < 128; thread++) {
        const int row0 = thread / 32 * 16 + thread % 32 / 4, t = thread % 4;
        uint32_t *own = in + WGMMA_IMAGE / 4 + thread * (a_words + d_words);
        for (int i = 0; i < a_words; i++) {
            const uint16_t *pair =
                &A[(row0 + i % 2 * 8) * STEPS_K + i / 4 * 16 + i % 4 / 2 * 8 + 2 * t];
            own[i] = pair[0] | (uint32_t)pair[1] << 16;
        }
        for (int i = 0; i < d_words; i++) {
            const int row = row0 + i / 2 % 2 * 8, col = i / 4 * 8 + 2 * t + i % 2;
            const float c = random_float(17, row * n + col);
            struct sum sum = {0};
            own[a_words + i] = bits_of(c);
            add(&sum, accumulate ? c : 0);
            for (int k = 0; k < STEPS_K; k++)
                add(&sum, half_value(A[row * STEPS_K + k]) * half_value(B[col * STEPS_K + k]));
            expected[thread * d_words + i] = sum.value;
            bound[thread * d_words + i] = bound_of(&sum);
        }
    }
    wgmma_now = kernel;
    wgmma_layout_now = (struct wgmma_layout){swizzle, a.begin,   a.leading, a.stride, a.step,
                                             b.begin, b.leading, b.stride,  b.step,   accumulate};
    run(run_wgmma, in, WGMMA_IMAGE / 4 + 128 * (a_words + d_words), out, 128 * d_words);
    expect_floats(name, out, expected, bound, 128 * d_words);
}

TEST(ptx, wgmma_shared)
{
    if (!has_architecture(90, true))
        return;
    test_wgmma("wgmma_shared_128", ptx_wgmma_shared_128, 128, false, 1, 0);
    test_wgmma("wgmma_shared_64", ptx_wgmma_shared_128, 128, false, 2, 1);
    test_wgmma("wgmma_shared_32", ptx_wgmma_shared_128, 128, false, 3, 1);
    test_wgmma("wgmma_shared_none", ptx_wgmma_shared_128, 128, false, 0, 1);
}

TEST(ptx, wgmma_registers)
{
    if (!has_architecture(90, true))
        return;
    test_wgmma("wgmma_registers_128", ptx_wgmma_registers_128, 128, true, 1, 1);
    test_wgmma("wgmma_registers_64", ptx_wgmma_registers_128, 128, true, 2, 0);
    test_wgmma("wgmma_registers_32", ptx_wgmma_registers_128, 128, true, 3, 1);
    test_wgmma("wgmma_registers_none", ptx_wgmma_registers_128, 128, true, 0, 1);
    test_wgmma("wgmma_registers_n64_128", ptx_wgmma_registers_64, 64, true, 1, 1);
    test_wgmma("wgmma_registers_n64_none", ptx_wgmma_registers_64, 64, true, 0, 0);
}

/* ---- mistakes ---- */

/* What the CPU backend says, in the fast build and in the checked one. Null: nothing, but the
 * output is wrong. Empty: perhaps something, and the output may be right. */
struct finding {
    enum mistake mistake;
    const char *fast, *checked;
};

static const char uncopied[] = "nobody has waited for the copy", race[] = "race on shared memory";
static const struct finding findings[] = {
    {COPY_ASYNC_NO_WAIT, "cp_async_wait<0>() is missing", uncopied},
    {COPY_ASYNC_NO_COMMIT, "cp_async_commit() and a wait is missing", uncopied},
    {COPY_ASYNC_MISALIGNED, "is not a multiple of 16", "is not a multiple of 16"},
    {LDMATRIX_MISALIGNED, "is not a multiple of 16", "is not a multiple of 16"},
    {LDMATRIX_HALF_WARP, "only lanes 0x0000ffff are there", "names lanes which have returned"},
    {LDMATRIX_OUTSIDE, "of dynamic shared memory, of which the launch asked for 512",
     "of dynamic shared memory, of which the launch asked for 512"},
    {MBARRIER_NOT_INITIALISED, "the mbarrier was not initialised",
     "the mbarrier was not initialised"},
    {MBARRIER_NO_BARRIER_AFTER_INIT, "", race}, /* in some orders all goes well */
    {MBARRIER_NO_FENCE, "mbarrier_init_fence() is missing", "mbarrier_init_fence() is missing"},
    {MBARRIER_NO_EXPECT, "ended while a tma_load()", race},
    {MBARRIER_TOO_MANY_BYTES, "128 announced bytes are not being copied",
     "128 announced bytes are not being copied"},
    {MBARRIER_TOO_FEW_BYTES, "128 bytes more were copied than announced",
     "128 bytes more were copied than announced"},
    {MBARRIER_TOO_MANY_ARRIVALS, "all 1 arrivals of this phase were there already",
     "all 1 arrivals of this phase were there already"},
    {MBARRIER_WRONG_PARITY, "ended while a tma_load()", race},
    {MBARRIER_TRY_FOREVER, "phase 1, parity 1, lacks 1 of 1 arrivals",
     "phase 1, parity 1, lacks 1 of 1 arrivals"},
    {TMA_MISALIGNED, "is not a multiple of 1024", "is not a multiple of 1024"},
    {TMA_NO_WAIT, "ended while a tma_load()", race},
    {TMA_READ_TOO_EARLY, "", race}, /* in some orders all goes well */
    {TMA_REFILLED_TOO_EARLY, "", race},
    {TMA_STORE_NO_PROXY_FENCE, "", "async_proxy_fence() is missing"},
    {TMA_STORE_NO_COMMIT, "tma_store_commit() and a wait is missing",
     "tma_store_commit() and a wait is missing"},
    {TMA_STORE_NO_WAIT, "tma_store_wait_read<0>() is missing",
     "tma_store_wait_read<0>() is missing"},
    {TMA_STORE_SOURCE_OVERWRITTEN, "that it was reading was overwritten",
     "that it was reading was overwritten"},
    {WGMMA_NO_FENCE, "wgmma_fence() is missing", "wgmma_fence() is missing"},
    {WGMMA_NO_PROXY_FENCE, "", "async_proxy_fence() is missing"},
    {WGMMA_NO_COMMIT, "wgmma_commit() is missing", "wgmma_commit() is missing"},
    {WGMMA_NO_WAIT, "wgmma_wait<0>() is missing", "wgmma_wait<0>() is missing"},
    {WGMMA_ACCUMULATOR_READ, NULL, NULL},
    {WGMMA_ACCUMULATOR_WRITTEN, "wrote to the accumulator", "wrote to the accumulator"},
    {WGMMA_OPERAND_OVERWRITTEN, NULL, race},
    {WGMMA_MISALIGNED, "its tile must be aligned to that", "its tile must be aligned to that"},
    {WGMMA_ONE_WARP_MISSING, "for the other warps of the warpgroup",
     "for the other warps of the warpgroup"},
    {WGMMA_DIFFERENT_DESCRIPTORS, "asks for another product", "asks for another product"},
    {NAMED_BARRIER_TOO_MANY, "a barrier that not all threads reach",
     "a barrier that not all threads reach"},
    {REGISTERS_TOO_MANY, "registers that nobody gives back", "registers that nobody gives back"},
    {CLUSTER_NOT_BEGUN, "", "which may not have begun"},
    {CLUSTER_NO_LAST_BARRIER, "of the cluster has ended", "uninitialised shared memory"},
    {CLUSTER_LAST_BARRIER_RELAXED, "", race},
    {CLUSTER_ENDS_TOO_EARLY, "of the cluster has ended", "of the cluster has ended"},
    {CLUSTER_ENDS_UNAWARE, NULL, "which may have ended"},
    {CLUSTER_READ_TOO_EARLY, "", race},
    {CLUSTER_OVERWRITTEN, "", race},
    {CLUSTER_ARRIVES_TWICE, "the thread has arrived already", "the thread has arrived already"},
    {CLUSTER_WAITS_ONLY, "the thread has not arrived", "the thread has not arrived"},
    {CLUSTER_HALF_WARP, "a warp operation that not all of its lanes reach",
     "a warp operation that not all of its lanes reach"},
    {CLUSTER_WARP_MISSING, "32 wait at __syncthreads()", "32 wait at __syncthreads()"},
    {CLUSTER_BLOCK_MISSING, "64 wait at a named barrier", "64 wait at a named barrier"},
    {CLUSTER_RANK_OUTSIDE, "block 2 of a cluster of 2", "block 2 of a cluster of 2"},
    {CLUSTER_MISALIGNED, "is not a multiple of 8", "is not a multiple of 8"},
    {CLUSTER_OUTSIDE, "of dynamic shared memory, of which the launch asked for 4096",
     "of dynamic shared memory, of which the launch asked for 4096"},
    {CLUSTER_NO_ADDRESS, "is no address in the cluster", "is no address in the cluster"},
};

/* The kernels of broken.cu with their data. */
struct broken_run {
    uint32_t *in, *out;
    CUtensorMap load, store;
};

static void start_broken(struct broken_run *run)
{
    static const struct box_case whole = {
        "", CU_TENSOR_MAP_SWIZZLE_128B, 1, 64, 64, 64, 1, 64, 64, 0, 0, 0};
    static uint32_t words[BROKEN_WORDS];
    for (int i = 0; i < BROKEN_WORDS; i++)
        words[i] = random_half(30, 2 * i) | (uint32_t)random_half(30, 2 * i + 1) << 16;
    run->in = upload(words, BROKEN_WORDS);
    run->out = upload(words, BROKEN_WORDS);
    cr_assert_eq(describe(&run->load, run->in, &whole), CUDA_SUCCESS);
    cr_assert_eq(describe(&run->store, run->out, &whole), CUDA_SUCCESS);
}

static bool can_be_broken(void)
{
    if (!on_gpu())
        return has_architecture(90, true);
    fprintf(stderr, "skipped: a GPU would hang or say nothing\n");
    return false;
}

static cudaError_t run_broken(const struct broken_run *run, enum mistake mistake, bool correct)
{
    cr_assert_eq(cudaMemset(run->out, 0xee, BROKEN_WORDS * sizeof(uint32_t)), cudaSuccess);
    return ptx_broken(mistake, correct, &run->load, &run->store, run->in, run->out);
}

TEST(mistakes, none)
{
    if (!has_architecture(90, true))
        return;
    struct broken_run run;
    start_broken(&run);
    for (int order = 0; order < ORDERS; order++) {
        setenv("SIMT_ORDER", orders[order], 1);
        for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
            assert_success(run_broken(&run, findings[i].mistake, true));
    }
}

static void expect_finding(const struct finding *finding)
{
    static uint32_t right[BROKEN_WORDS], wrong[BROKEN_WORDS];
    const char *expected = strcmp(backend_name(), "check") == 0 ? finding->checked : finding->fast;
    struct broken_run run;
    start_broken(&run);
    assert_success(run_broken(&run, finding->mistake, true));
    download(right, run.out, BROKEN_WORDS);

    const cudaError_t status = run_broken(&run, finding->mistake, false);
    const char *report = backend_report();
    if (expected == NULL) {
        cr_expect_eq(status, cudaSuccess, "mistake %d: %s", finding->mistake, report);
        download(wrong, run.out, BROKEN_WORDS);
        cr_expect(memcmp(wrong, right, sizeof wrong) != 0, "mistake %d has no effect",
                  finding->mistake);
    } else if (*expected == '\0') {
        cr_expect(status == cudaSuccess || *report != '\0', "mistake %d", finding->mistake);
    } else {
        cr_expect_neq(status, cudaSuccess, "mistake %d is not found", finding->mistake);
        cr_expect(strstr(report, expected) != NULL, "mistake %d: '%s' is not in '%s'",
                  finding->mistake, expected, report);
    }
    assert_success(cudaDeviceReset());
}

TEST(mistakes, each_is_found)
{
    if (!can_be_broken())
        return;
    for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
        expect_finding(&findings[i]);
}

/* Blocks of a cluster come in an order too; the checked build does not wait for the one in which
 * things go wrong. */
TEST(mistakes, of_clusters_in_every_order)
{
    if (!can_be_broken() || strcmp(backend_name(), "check") != 0)
        return;
    for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
        for (int order = 0; findings[i].mistake > REGISTERS_TOO_MANY && order < ORDERS; order++) {
            struct broken_run run;
            start_broken(&run);
            setenv("SIMT_ORDER", orders[order], 1);
            cr_expect_neq(run_broken(&run, findings[i].mistake, false), cudaSuccess,
                          "mistake %d is not found in order %s", findings[i].mistake,
                          orders[order]);
            assert_success(cudaDeviceReset());
        }
}

/* ---- what the checked build counts ---- */

#define EXPECT(counters, member, value)                                                            \
    cr_expect_eq((counters).member, (unsigned long long)(value),                                   \
                 #member " is %llu, expected %llu", (counters).member,                             \
                 (unsigned long long)(value))

TEST(ptx, counted)
{
    struct counters c;
    if (!backend_counters(&c)) {
        fprintf(stderr, "skipped: the %s build does not count\n", backend_name());
        return;
    }
    static uint32_t words[MAX_WORDS];
    uint32_t *in = upload(words, MAX_WORDS), *out = upload(words, MAX_WORDS);

    backend_counters_reset();
    assert_success(ptx_ldmatrix(in, out));
    cr_assert(backend_counters(&c));
    EXPECT(c, shared_loads, 2 * 32);
    EXPECT(c, shared_stores, 4 * 32);
    /* Eight rows a wavefront; the stores go to every fourth bank, eight lanes to one. */
    EXPECT(c, shared_wavefronts, 2 * 4 + 4 * 4);
    EXPECT(c, shared_wavefronts_ideal, 2 * 4 + 4);

    backend_counters_reset();
    assert_success(ptx_copy_async(in, out));
    cr_assert(backend_counters(&c));
    EXPECT(c, global_load_bytes, 32 / 5 * (4 + 8 + 12 + 16) + 4 + 16 * 4 + 32 * 16 + 32 * 4);

    backend_counters_reset();
    assert_success(ptx_cluster(in, out));
    cr_assert(backend_counters(&c));
    EXPECT(c, shared_stores, CLUSTERS * CLUSTER_BLOCKS / 2 * (32 + 16) * CLUSTER_BLOCKS);
    EXPECT(c, barriers, CLUSTERS * CLUSTER_BLOCKS * 2);

    const struct box_case *box = &box_cases[4]; /* 32 of 64 columns and 8 of 16 rows lie inside */
    CUtensorMap map;
    cr_assert_eq(describe(&map, in, box), CUDA_SUCCESS);
    backend_counters_reset();
    assert_success(ptx_tma_load(&map, box->x, box->y, box->z, 4 * box_words(box), out));
    cr_assert(backend_counters(&c));
    EXPECT(c, global_loads, 1);
    EXPECT(c, global_load_requests, 1);
    EXPECT(c, global_load_bytes, 8 * 64);
    EXPECT(c, shared_stores, 1);
    EXPECT(c, shared_loads, box_words(box));
    cudaFree(in);
    cudaFree(out);
}
