/* The tests of the instructions share this: random data, running a kernel in every order, and
 * comparing with a model and with a GPU's results. */
#ifndef PTX_CASES_H
#define PTX_CASES_H

#include "device/backend.h"
#include "tests/support/harness.h"
#include "harness/inputs.h"
#include "ptx_kernels.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static inline bool on_gpu(void)
{
    return strcmp(backend_name(), "gpu") == 0;
}

/* sm_90a has what later architectures lack. */
static inline bool has_architecture(int needed, bool exactly)
{
    const int device = backend_architecture();
    if (exactly ? device == needed : device >= needed)
        return true;
    fprintf(stderr, "skipped: needs sm_%d%s (this device is sm_%d)\n", needed, exactly ? "a" : "",
            device);
    return false;
}

/* ---- running a kernel ---- */

static inline uint32_t *upload(const uint32_t *words, size_t count)
{
    uint32_t *device = NULL;
    cr_assert_eq(cudaMalloc((void **)&device, count * sizeof *device), cudaSuccess);
    cr_assert_eq(cudaMemcpy(device, words, count * sizeof *device, cudaMemcpyHostToDevice),
                 cudaSuccess);
    return device;
}

static inline void download(uint32_t *words, const uint32_t *device, size_t count)
{
    cr_assert_eq(cudaMemcpy(words, device, count * sizeof *device, cudaMemcpyDeviceToHost),
                 cudaSuccess);
}

static inline void assert_success(cudaError_t status)
{
    cr_assert_eq(status, cudaSuccess, "%s %s", cudaGetErrorName(status), backend_report());
}

static const char *const orders[] = {"inorder", "reversed", "random:1"};
enum { ORDERS = sizeof orders / sizeof *orders };

/* Runs the kernel in all orders, which must not matter. */
static inline void run(ptx_kernel *kernel, const uint32_t *in, size_t in_words, uint32_t *out,
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

static inline void random_words(uint32_t *words, size_t count, uint64_t stream)
{
    for (size_t i = 0; i < count; i++)
        words[i] = (uint32_t)input_bits(1, stream, i);
}

/* ---- what a GPU gave: tests/ptx/vectors ---- */

enum { VECTOR_WORDS = 512, WORDS_A_LINE = 8 };

/* From a longer result, one word in every so many is kept. */
static inline size_t vector_step(size_t count)
{
    return (count + VECTOR_WORDS - 1) / VECTOR_WORDS;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Opens a file of a GPU's results or, with PTX_VECTORS=DIRECTORY, one in that directory to
 * write. */
static inline FILE *open_vector(const char *name, const char *mode)
{
    const char *write_to = getenv("PTX_VECTORS");
    char path[512];
    snprintf(path, sizeof path, "%s/%s.txt", write_to != NULL ? write_to : "tests/ptx/vectors",
             name);
    FILE *file = fopen(path, write_to != NULL ? mode : "r");
    if (write_to != NULL)
        cr_assert_not_null(file, "%s cannot be written", path);
    else if (file == NULL)
        fprintf(stderr, "skipped: no GPU's result in %s\n", path);
    return file;
}

/*
 * Compares floats with those of a GPU. Either may differ from the exact result by bound[i], so the
 * two may differ by twice that.
 */
static inline void compare_with_gpu(const char *name, const uint32_t *words, size_t count,
                                    const double *bound)
{
    FILE *file = open_vector(name, "w");
    if (file == NULL)
        return;
    for (size_t i = 0; i < count; i += vector_step(count)) {
        uint32_t expected;
        if (getenv("PTX_VECTORS") != NULL) {
            const bool ends = (i / vector_step(count) + 1) % WORDS_A_LINE == 0;
            fprintf(file, "%08" PRIx32 "%c", words[i],
                    ends || i + vector_step(count) >= count ? '\n' : ' ');
            continue;
        }
        cr_assert_eq(fscanf(file, "%" SCNx32, &expected), 1, "%s ends at word %zu", name, i);
        cr_assert(fabs((double)float_of(words[i]) - float_of(expected)) <= 2 * bound[i],
                  "%s: element %zu is %.9g, on a GPU %.9g, bound %g", name, i, float_of(words[i]),
                  float_of(expected), bound[i]);
    }
    fclose(file);
}

/*
 * Compares words that instructions only move with those of a GPU. There is one right result, and
 * the model gives each word of it. So a hash (FNV-1a) tells whether the GPU's result was the same.
 */
static inline void compare_hash_with_gpu(const char *name, const uint32_t *words, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < count; i += vector_step(count))
        hash = (hash ^ words[i]) * 0x100000001b3;
    FILE *file = open_vector("moves", "a");
    if (file == NULL)
        return;
    if (getenv("PTX_VECTORS") != NULL) {
        fprintf(file, "%s %016" PRIx64 "\n", name, hash);
    } else {
        char found[64] = "";
        uint64_t expected = 0;
        while (strcmp(found, name) != 0 && fscanf(file, "%63s %" SCNx64, found, &expected) == 2)
            ;
        if (strcmp(found, name) != 0)
            fprintf(stderr, "skipped: no GPU's result of %s\n", name);
        else
            cr_assert_eq(hash, expected,
                         "%s: the words' hash is %016" PRIx64 ", on a GPU %016" PRIx64, name, hash,
                         expected);
    }
    fclose(file);
}

static inline void expect_words(const char *name, const uint32_t *words, const uint32_t *expected,
                                size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(words[i], expected[i], "%s: word %zu is %08" PRIx32 ", expected %08" PRIx32,
                     name, i, words[i], expected[i]);
    compare_hash_with_gpu(name, words, count);
}

/* Expects a kernel to make these words of `in`. */
static inline void expect_words_of(const char *name, ptx_kernel *kernel, const uint32_t *in,
                                   size_t in_words, const uint32_t *expected, size_t count)
{
    uint32_t *out = calloc(count, sizeof *out);
    run(kernel, in, in_words, out, count);
    expect_words(name, out, expected, count);
    free(out);
}

static inline void expect_floats(const char *name, const uint32_t *words, const double *expected,
                                 const double *bound, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert(fabs(float_of(words[i]) - expected[i]) <= bound[i],
                  "%s: element %zu is %.9g, expected %.9g, bound %g", name, i, float_of(words[i]),
                  expected[i], bound[i]);
    compare_with_gpu(name, words, count, bound);
}

/* ---- halves ---- */

/* Returns a half between 2^-6 and 4 in magnitude, with some zeros and some subnormal numbers. */
static inline uint16_t random_half(uint64_t stream, uint64_t index)
{
    const uint64_t bits = input_bits(2, stream, index);
    const unsigned choice = bits >> 32 & 63, fraction = bits & 0x3ff, sign = bits >> 10 & 1;
    const unsigned exponent = choice < 2 ? 0 : 9 + (unsigned)(bits >> 16) % 8;
    return (uint16_t)(sign << 15 | exponent << 10 | (choice == 0 ? 0 : fraction));
}

static inline double half_value(uint16_t half)
{
    const int exponent = half >> 10 & 31, fraction = half & 0x3ff;
    const double magnitude =
        exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

/* Returns a factor's element: a half, or a bfloat16, which is the upper half of a float. */
static inline uint16_t random_element(uint64_t stream, uint64_t index, bool bfloat16)
{
    return bfloat16 ? (uint16_t)(bits_of((float)input_normal(4, stream, index)) >> 16)
                    : random_half(stream, index);
}

static inline double element_value(uint16_t element, bool bfloat16)
{
    return bfloat16 ? float_of((uint32_t)element << 16) : half_value(element);
}

static inline float random_float(uint64_t stream, uint64_t index)
{
    return (float)input_normal(3, stream, index);
}

/*
 * Holds an element of A * B + C in double, and how far a float result may be from it. The products
 * are exact. Each of them, and C, is added with one rounding here. A GPU aligns each to the largest
 * and cuts it off, which costs at most an ulp of the magnitudes' sum: 2^-23 of that sum.
 */
struct sum {
    double value, magnitude;
    int terms;
};

static inline void add(struct sum *sum, double term)
{
    sum->value += term;
    sum->magnitude += fabs(term);
    sum->terms++;
}

static inline double bound_of(const struct sum *sum)
{
    return sum->terms * FLT_EPSILON * sum->magnitude;
}

#endif
