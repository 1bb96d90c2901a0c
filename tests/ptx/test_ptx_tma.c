/* Bulk tensor copies are compared with a model of tensor map, box and swizzle. */
#include "box_cases.h"

CONDITIONAL_TEST(ptx, tma_load, has_architecture(90, false))
{
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
        const CUtensorMap map = map_of(device_array, c);
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

CONDITIONAL_TEST(ptx, tma_store, has_architecture(90, false))
{
    static uint32_t box[MAX_WORDS], before[MAX_WORDS], array[MAX_WORDS], expected[MAX_WORDS];
    for (int i = 0; i < BOX_CASES; i++) {
        const struct box_case *c = &box_cases[i];
        const int words = array_words(c);
        if (c->x < 0)
            /* An H200 clips a store past the end, but calls one before the beginning illegal. */
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
        const CUtensorMap map = map_of(device_array, c);
        assert_success(ptx_tma_store(&map, c->x, c->y, c->z, 4 * box_words(c), device_box));
        download(array, device_array, words);
        expect_words(name, array, expected, words);
        cudaFree(device_box);
        cudaFree(device_array);
    }
}

CONDITIONAL_TEST(ptx, tma_load_multicast, has_architecture(90, true))
{
    enum { ROWS = 64 * MULTICAST_ROUNDS, OUT = 2 * MULTICAST_ROUNDS * MULTICAST_WORDS };
    static const struct box_case half = {
        "", CU_TENSOR_MAP_SWIZZLE_128B, 1, ROWS, 64, 64, 1, 32, 64, 0, 0, 0};
    static uint32_t array[32 * ROWS], out[OUT], expected[OUT];
    random_words(array, 32 * ROWS, 80);
    for (int round = 0; round < MULTICAST_ROUNDS; round++)
        for (int i = 0; i < MULTICAST_WORDS; i++) {
            const int row = i / 32, chunk = i / 4 % 8 ^ row % 8;
            const uint32_t word = array[32 * (64 * round + row) + 4 * chunk + i % 4];
            expected[2 * round * MULTICAST_WORDS + i] = word;
            expected[(2 * round + 1) * MULTICAST_WORDS + i] = word + 7 + (uint32_t)round;
        }
    uint32_t *device_array = upload(array, 32 * ROWS), *device_out = upload(out, OUT);
    const CUtensorMap map = map_of(device_array, &half);
    for (int order = 0; order < ORDERS; order++) {
        setenv("SIMT_ORDER", orders[order], 1);
        assert_success(ptx_tma_load_multicast(&map, device_out));
        download(out, device_out, OUT);
        expect_words("tma_load_multicast", out, expected, OUT);
    }
    cudaFree(device_array);
    cudaFree(device_out);
}

/* The encoder must refuse what the copy engine cannot do. */
CONDITIONAL_TEST(ptx, tensor_map_refused, has_architecture(90, false))
{
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
