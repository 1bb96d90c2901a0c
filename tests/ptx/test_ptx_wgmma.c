/* Products by a warpgroup are compared with a model of descriptors, swizzles and accumulators. */
#include "ptx_cases.h"
#include "tests/simt/counted.h"

enum { STEPS_K = 16 * WGMMA_STEPS };

/*
 * Finds the byte where element (i, k) of an operand lies: i along M or N, k along K. The formulas
 * are the PTX manual's canonical layouts ("Strides", for 2-byte elements), with T = 8 elements of
 * 16 bytes. Rows of a swizzled operand are as long as the span. A span of 32 bytes holds only 16 k,
 * so all rows of the second step lie behind those of the first.
 */
struct operand {
    int span; /* in bytes; 0 for no swizzle */
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

static const int spans[] = {0, 128, 64, 32}; /* indexed by the descriptor's bits 62 and 63 */

/* Packs `rows` elements along M or N and STEPS_K along K tightly, from `begin` on. */
static struct operand pack(int swizzle, bool k_along_memory, int rows, int begin)
{
    const int span = spans[swizzle];
    if (k_along_memory) {
        if (span == 0) /* 8 x 8 pieces: all of one k, then of the next */
            return (struct operand){0, true, begin, rows * 16, 128, rows * 32};
        return (struct operand){span, true, begin, 0, 8 * span, span == 32 ? rows * span : 32};
    }
    if (span == 0) /* 8 x 8 pieces: all of eight k, then of the next eight */
        return (struct operand){0, false, begin, rows * 16, 128, rows * 32};
    /* These are panels of one span, each with all k. */
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

static struct wgmma_layout wgmma_layout_now;

static cudaError_t run_wgmma(const uint32_t *in, uint32_t *out)
{
    return ptx_wgmma(in, out, wgmma_layout_now);
}

/* Expects that a step read its operands' 16 elements of each row of A and column of B once, eight
 * at a time, and every eight of those without bank conflicts. Before, the image was stored. */
static void expect_counts(int rows)
{
    struct counters c;
    if (!backend_counters(&c))
        return;
    c = counted(cudaSuccess);
    EXPECT(c, shared_loads, ORDERS * WGMMA_STEPS * rows * 2);
    EXPECT(c, shared_wavefronts, ORDERS * (WGMMA_IMAGE / 128 + WGMMA_STEPS * rows * 2 / 8));
}

static void test_wgmma(const char *name, int n, enum wgmma_form form, int swizzle, int accumulate,
                       bool bfloat16)
{
    const bool a_in_registers = form == WGMMA_REGISTERS, k_along_memory = form == WGMMA_SHARED;
    static uint16_t A[64 * STEPS_K], B[256 * STEPS_K];
    static uint32_t in[WGMMA_IMAGE / 4 + 128 * (4 * WGMMA_STEPS + 128)], out[128 * 128];
    static double expected[128 * 128], bound[128 * 128];
    for (int i = 0; i < 64 * STEPS_K; i++)
        A[i] = random_element(14, i, bfloat16);
    for (int i = 0; i < n * STEPS_K; i++)
        B[i] = random_element(15, i, bfloat16);

    /* Operands lie in shared memory at multiples of 1024. What lies between is random and must not
     * be read. */
    random_words(in, WGMMA_IMAGE / 4, 16);
    const struct operand a = pack(swizzle, k_along_memory, 64, 1024),
                         b = pack(swizzle, k_along_memory, n, 16384);
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
                add(&sum, element_value(A[row * STEPS_K + k], bfloat16) *
                              element_value(B[col * STEPS_K + k], bfloat16));
            expected[thread * d_words + i] = sum.value;
            bound[thread * d_words + i] = bound_of(&sum);
        }
    }
    wgmma_layout_now =
        (struct wgmma_layout){n,       form,      swizzle,  a.begin, a.leading,  a.stride, a.step,
                              b.begin, b.leading, b.stride, b.step,  accumulate, bfloat16};
    run(run_wgmma, in, WGMMA_IMAGE / 4 + 128 * (a_words + d_words), out, 128 * d_words);
    expect_floats(name, out, expected, bound, 128 * d_words);
    expect_counts(a_in_registers ? n : 64 + n);
}

CONDITIONAL_TEST(ptx, wgmma_shared, has_architecture(90, true))
{
    test_wgmma("wgmma_shared_128", 128, WGMMA_SHARED, 1, 0, false);
    test_wgmma("wgmma_shared_64", 128, WGMMA_SHARED, 2, 1, false);
    test_wgmma("wgmma_shared_32", 128, WGMMA_SHARED, 3, 1, false);
    test_wgmma("wgmma_shared_none", 128, WGMMA_SHARED, 0, 1, false);
    test_wgmma("wgmma_shared_bfloat16", 128, WGMMA_SHARED, 1, 1, true);
    test_wgmma("wgmma_shared_n64_128", 64, WGMMA_SHARED, 1, 1, false);
    test_wgmma("wgmma_shared_n64_bfloat16", 64, WGMMA_SHARED, 1, 0, true);
    test_wgmma("wgmma_shared_n80_128", 80, WGMMA_SHARED, 1, 0, false);
    test_wgmma("wgmma_shared_n80_bfloat16", 80, WGMMA_SHARED, 1, 1, true);
}

CONDITIONAL_TEST(ptx, wgmma_shared_transposed, has_architecture(90, true))
{
    test_wgmma("wgmma_shared_transposed_128", 128, WGMMA_SHARED_TRANSPOSED, 1, 0, false);
    test_wgmma("wgmma_shared_transposed_64", 128, WGMMA_SHARED_TRANSPOSED, 2, 1, false);
    test_wgmma("wgmma_shared_transposed_32", 128, WGMMA_SHARED_TRANSPOSED, 3, 1, false);
    test_wgmma("wgmma_shared_transposed_none", 128, WGMMA_SHARED_TRANSPOSED, 0, 1, false);
    test_wgmma("wgmma_shared_transposed_bfloat16", 128, WGMMA_SHARED_TRANSPOSED, 1, 1, true);
    test_wgmma("wgmma_shared_transposed_n64_128", 64, WGMMA_SHARED_TRANSPOSED, 1, 1, false);
    test_wgmma("wgmma_shared_transposed_n64_none", 64, WGMMA_SHARED_TRANSPOSED, 0, 0, false);
    test_wgmma("wgmma_shared_transposed_n64_bfloat16", 64, WGMMA_SHARED_TRANSPOSED, 1, 0, true);
    test_wgmma("wgmma_shared_transposed_n80_128", 80, WGMMA_SHARED_TRANSPOSED, 1, 1, false);
    test_wgmma("wgmma_shared_transposed_n80_bfloat16", 80, WGMMA_SHARED_TRANSPOSED, 1, 0, true);
}

CONDITIONAL_TEST(ptx, wgmma_registers, has_architecture(90, true))
{
    test_wgmma("wgmma_registers_128", 128, WGMMA_REGISTERS, 1, 1, false);
    test_wgmma("wgmma_registers_64", 128, WGMMA_REGISTERS, 2, 0, false);
    test_wgmma("wgmma_registers_32", 128, WGMMA_REGISTERS, 3, 1, false);
    test_wgmma("wgmma_registers_none", 128, WGMMA_REGISTERS, 0, 1, false);
    test_wgmma("wgmma_registers_n64_128", 64, WGMMA_REGISTERS, 1, 1, false);
    test_wgmma("wgmma_registers_n64_none", 64, WGMMA_REGISTERS, 0, 0, false);
    test_wgmma("wgmma_registers_bfloat16", 128, WGMMA_REGISTERS, 1, 1, true);
    test_wgmma("wgmma_registers_n64_bfloat16", 64, WGMMA_REGISTERS, 1, 0, true);
}
