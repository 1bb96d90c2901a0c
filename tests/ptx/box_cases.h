/* These are boxes of bulk tensor copies: what a tensor map says of an array, and where its elements
 * go. */
#ifndef BOX_CASES_H
#define BOX_CASES_H

#include "ptx_cases.h"

typedef CUresult encode_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                           const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                           const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static inline encode_fn *encoder(void)
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

/* Each case is an array of 2-byte elements, [depth][height][width] with rows `pitch` elements
 * apart, and a box of it. */
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

static inline CUresult describe(CUtensorMap *map, void *array, const struct box_case *c)
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

static inline CUtensorMap map_of(void *array, const struct box_case *c)
{
    CUtensorMap map;
    cr_assert_eq(describe(&map, array, c), CUDA_SUCCESS, "%s: %s", c->name, backend_report());
    return map;
}

static inline int array_words(const struct box_case *c)
{
    return c->depth * c->height * c->pitch / 2;
}

static inline int box_words(const struct box_case *c)
{
    return c->box_depth * c->box_height * c->box_width / 2;
}

/* Returns where element (x, y, z) of the box lies in shared memory, in elements. Rows follow each
 * other. Then 16-byte chunks of eight elements are exchanged within 32, 64 or 128 bytes, by the
 * number of the 128-byte line that they lie in. */
static inline int box_place(const struct box_case *c, int x, int y, int z)
{
    static const int chunks[] = {1, 2, 4, 8};
    const int place = (z * c->box_height + y) * c->box_width + x;
    return place ^ place / 64 % chunks[c->swizzle] * 8;
}

/* Returns where the element lies in the array, or -1 for outside. */
static inline int array_place(const struct box_case *c, int x, int y, int z)
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

#endif
