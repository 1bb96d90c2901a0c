/* This is cuTensorMapEncodeTiled, by the rules of CUDA's driver, and how a program finds it. */
#include "instructions/tensor_map.h"
#include "host/environment.h"
#include "host/errors.h"
#include <algorithm>
#include <cstring>

using namespace simt;

/* The index is CUtensorMapDataType: integers from UINT8 to INT64, then floating-point types. */
static const unsigned char element_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

/* Refuses, with a message for backend_report(). */
__attribute__((format(printf, 1, 2))) static CUresult no(const char *pattern, ...)
{
    SIMT_FORMATTED(why, pattern);
    refuse(cudaSuccess, "tensor map: %s", why.c_str());
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *address, const cuuint64_t *sizes, const cuuint64_t *strides,
                                const cuuint32_t *box, const cuuint32_t *element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    static const unsigned char spans[] = {0, 32, 64, 128};
    if (map_is_to_fail())
        return no("SIMT_FAIL_MAP makes this one fail");
    if (!map || reinterpret_cast<uintptr_t>(map) % 64)
        return no("the map lies at %p; its address must be a multiple of 64", map);
    if (rank < 1 || rank > max_tensor_rank)
        return no("the rank is %u; it must be 1 to %u", rank, max_tensor_rank);
    if (!address || reinterpret_cast<uintptr_t>(address) % 16)
        return no("the array begins at %p; it must be a multiple of 16", address);
    if (!sizes || !box || !element_strides || (rank > 1 && !strides))
        return no("sizes, strides, box and element strides must be given");
    if (unsigned(type) >= sizeof element_bytes || unsigned(swizzle) >= sizeof spans ||
        unsigned(promotion) > CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
        return no("data type %d, swizzle %d or L2 promotion %d is not one that there is", type,
                  swizzle, promotion);
    if (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && type < CU_TENSOR_MAP_DATA_TYPE_FLOAT16)
        return no("only floating-point elements can be filled with NaN");

    TensorMap encoded = {};
    encoded.mark = tensor_map_mark;
    encoded.type = uint8_t(type);
    encoded.rank = uint8_t(rank);
    encoded.element_bytes = element_bytes[type];
    encoded.swizzle_span = spans[swizzle];
    encoded.fill_with_nan = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    encoded.address = static_cast<char *>(address);
    for (unsigned i = 0; i < rank; i++) {
        if (sizes[i] == 0 || sizes[i] > uint64_t(1) << 32)
            return no("size %u is %zu; it must be 1 to 2^32", i, sizes[i]);
        if (box[i] == 0 || box[i] > 256)
            return no("size %u of the box is %u; it must be 1 to 256", i, box[i]);
        encoded.last[i] = uint32_t(sizes[i] - 1);
        encoded.box[i] = uint16_t(box[i]);
    }
    uint64_t extent = sizes[0] * encoded.element_bytes;
    for (unsigned i = 0; i + 1 < rank; i++) {
        if (strides[i] % 16 || strides[i] >= uint64_t(1) << 40)
            return no("stride %u is %zu bytes; it must be a multiple of 16 and less than 2^40", i,
                      strides[i]);
        if (strides[i] < extent)
            return no("stride %u is %zu bytes, less than the %zu that lie within it", i, strides[i],
                      extent);
        encoded.stride[i] = strides[i];
        extent = sizes[i + 1] * strides[i];
    }
    const size_t row = box_row_bytes(encoded), span = encoded.swizzle_span;
    if (row % 16)
        return no("a row of the box is %zu bytes; it must be a multiple of 16", row);
    if (span && row > span)
        return no("a row of the box is %zu bytes; it must fit in the swizzle's span of %zu", row,
                  span);

    const bool unit_strides = std::count(element_strides, element_strides + rank, 1u) == rank;
    if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || !unit_strides || (span && row < span)) {
        no("the CPU backend has no interleaving, no element strides other than 1, and no rows "
           "shorter than the swizzle's span");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *map = CUtensorMap();
    memcpy(map->opaque, &encoded, sizeof encoded);
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long,
                                    enum cudaDriverEntryPointQueryResult *result)
{
    if (!symbol || !function)
        return done(cudaErrorInvalidValue);
    bool known = !strcmp(symbol, "cuTensorMapEncodeTiled");
    *function = known ? reinterpret_cast<void *>(cuTensorMapEncodeTiled) : nullptr;
    if (result)
        *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return done(known || result ? cudaSuccess : cudaErrorSymbolNotFound);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    return cudaGetDriverEntryPoint(symbol, function, flags, result);
}
