/*
 * A tensor map describes an array, and the box of it to copy, for the copy engine (TMA).
 *
 * A map is 128 opaque bytes. The host makes it here and passes it to the kernel by value, as a
 * `const __grid_constant__` parameter. ptx.cuh says what tma_load() and tma_store() do with it.
 */
#ifndef COMMON_TENSOR_MAP_H
#define COMMON_TENSOR_MAP_H

#include <cuda.h>
#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A box has 64 columns: 64 elements are 128 bytes, a row of a swizzled tile. */
enum { TENSOR_MAP_BOX_COLS = 64 };

/*
 * Describes `array`, [matrices, rows, cols] of two-byte elements, row-major and contiguous. One
 * copy moves a box of box_rows rows and 64 columns of one matrix, swizzled in units of 128 bytes.
 * `array` is aligned to 16 bytes, cols is a multiple of 8, all sizes are positive, and box_rows is
 * at most 256.
 *
 * Returns cudaErrorInvalidValue and a message (refusal.h) when the driver refuses the map,
 * cudaErrorNotSupported when the driver has no tensor maps.
 */
cudaError_t tensor_map_of_halves(CUtensorMap *map, const void *array, size_t matrices, size_t rows,
                                 size_t cols, unsigned int box_rows);

#ifdef __cplusplus
}
#endif

#endif
