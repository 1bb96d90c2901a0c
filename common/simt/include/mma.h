/* CUDA's warp matrix functions, for 16 x 16 x 16 products of halves or bfloat16 with float sums.
 * Which element of the matrix a fragment's x[i] is, CUDA does not say. A lane has eight of each. */
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* instructions/matrix.cpp defines these. A fragment lies as in mma_m16n8k16's A (factors) and
 * two of its D side by side (sums). by_rows: the matrix has its rows along memory. */
namespace simt
{
void wmma_move(void *fragment, void *matrix, unsigned pitch, unsigned element_bytes, bool by_rows,
               bool to_memory, Site site);
} /* namespace simt */

namespace nvcuda
{
namespace wmma
{

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;

enum layout_t { mem_row_major, mem_col_major };

template <class Use, int Rows, int Cols, int Depth, class T, class Layout = void> struct fragment {
    static_assert(Rows == 16 && Cols == 16 && Depth == 16 &&
                      (std::is_same_v<Use, accumulator>
                           ? std::is_same_v<T, float>
                           : std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>),
                  "the CPU backend has wmma fragments of 16 x 16 x 16 only, of __half or "
                  "__nv_bfloat16 as matrix_a and matrix_b and of float as accumulator");
    enum { num_elements = 8 };
    T x[num_elements];
};

template <class Fragment, class T> __forceinline__ void fill_fragment(Fragment &fragment, T value)
{
    for (int i = 0; i < fragment.num_elements; i++)
        fragment.x[i] = value;
}

template <class Use, class T, class Layout>
__forceinline__ void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout> &to, const T *matrix,
                                      unsigned pitch, SIMT_CALL_SITE)
{
    simt::wmma_move(to.x, const_cast<T *>(matrix), pitch, 2, std::is_same_v<Layout, row_major>,
                    false, site);
}

using simt_sums = fragment<accumulator, 16, 16, 16, float>;

/* clang-format off */
__forceinline__ void load_matrix_sync(simt_sums &to, const float *matrix, unsigned pitch, layout_t layout, SIMT_CALL_SITE) { simt::wmma_move(to.x, const_cast<float *>(matrix), pitch, 4, layout == mem_row_major, false, site); }
__forceinline__ void store_matrix_sync(float *matrix, const simt_sums &from, unsigned pitch, layout_t layout, SIMT_CALL_SITE) { simt::wmma_move(const_cast<float *>(from.x), matrix, pitch, 4, layout == mem_row_major, true, site); }
/* clang-format on */

template <class T, class LayoutA, class LayoutB>
__forceinline__ void mma_sync(simt_sums &d, const fragment<matrix_a, 16, 16, 16, T, LayoutA> &a,
                              const fragment<matrix_b, 16, 16, 16, T, LayoutB> &b,
                              const simt_sums &c, SIMT_CALL_SITE)
{
    static_assert(sizeof(T) == 2, "factors have 16 bits");
    simt::multiply_fragments(d.x, a.x, b.x, c.x, 16, std::is_same_v<T, __nv_bfloat16>, site);
}

} /* namespace wmma */
} /* namespace nvcuda */
