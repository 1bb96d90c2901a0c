/* This has ldmatrix, stmatrix, mma.sync and wmma. See common/device/gpu/ptx.cuh for layouts. */
#include "instructions/matrix_product.h"
#include "instructions/asynchronous.h"
#include "device/backend.h"
#include <mma.h>
#include <ptx.cuh>

using namespace simt;

static AccessKind plain_access(bool writes) { return writes ? plain_write : plain_read; }

struct MatrixMove {
    char *row;   /* lane 8 * j + i has row i of matrix j */
    uint16_t *r; /* two elements of each of four matrices */
};

/* Transposed means that two elements of a lane are neighbours in a column, not in a row. */
template <bool to_memory, bool transposed> static void move_rows(void *const *slot, unsigned lanes)
{
    require_whole_warp(lanes);
    const auto of = [slot](unsigned lane) { return *static_cast<MatrixMove *>(slot[lane]); };
    constexpr unsigned together = transposed ? 1 : 2;
    for (unsigned lane = 0; lane < warp_size; lane++)
        for (unsigned i = 0; i < 8; i += together) {
            const unsigned first = lane / 4, second = lane % 4 * 2 + i % 2, matrix = i / 2;
            const unsigned row = transposed ? second : first, col = transposed ? first : second;
            void *const element = of(lane).r + i;
            void *const place = of(8 * matrix + row).row + 2 * col;
            memcpy(to_memory ? place : element, to_memory ? element : place, 2 * together);
        }
}

/* ---- mma.sync, and wmma's products, whose fragments are 16 x 16 like a left factor ---- */

constexpr unsigned fragment_elements = 8;

struct Multiplication {
    float *d;
    const uint16_t *a, *b;
    const float *c;
    bool bfloat16;
};

template <unsigned cols> static void run_product(void *const *slot, unsigned lanes)
{
    require_whole_warp(lanes);
    const bool bfloat16 = static_cast<const Multiplication *>(slot[0])->bfloat16;
    uint16_t a[16][16], b[16][cols];
    float A[16][16], B[16][cols], D[16][cols];
    for (unsigned lane = 0; lane < warp_size; lane++) {
        const Multiplication &product = *static_cast<const Multiplication *>(slot[lane]);
        for (unsigned i = 0; i < fragment_elements; i += 2) {
            const Element left = of_left(lane, i); /* and its neighbour in the row */
            memcpy(&a[left.row][left.col], &product.a[i], 2 * sizeof *product.a);
        }
        for (unsigned i = 0; i < cols / 2; i++) {
            const Element right = cols == 8 ? of_right(lane, i) : of_left(lane, i);
            const Element sum = of_left(lane, i);
            b[right.row][right.col] = product.b[i];
            D[sum.row][sum.col] = product.c[i];
        }
    }
    element_values(&A[0][0], &a[0][0], 16 * 16, bfloat16);
    element_values(&B[0][0], &b[0][0], 16 * cols, bfloat16);
    multiply_add(&D[0][0], &A[0][0], &B[0][0], cols);
    for (unsigned lane = 0; lane < warp_size; lane++)
        for (unsigned i = 0; i < cols / 2; i++) {
            const Element sum = of_left(lane, i);
            static_cast<const Multiplication *>(slot[lane])->d[i] = D[sum.row][sum.col];
        }
}

struct FragmentMove {
    char *fragment, *matrix;
    size_t pitch; /* elements */
    unsigned element_bytes;
    bool by_rows;
};

static char *in_memory(const FragmentMove &move, unsigned lane, unsigned i)
{
    Element e = of_left(lane, i);
    size_t offset = move.by_rows ? e.row * move.pitch + e.col : e.col * move.pitch + e.row;
    return move.matrix + offset * move.element_bytes;
}

template <bool to_memory> static void move_fragments(void *const *slot, unsigned lanes)
{
    require_whole_warp(lanes);
    for (unsigned lane = 0; lane < warp_size; lane++) {
        const FragmentMove &move = *static_cast<const FragmentMove *>(slot[lane]);
        for (unsigned i = 0; i < fragment_elements; i++) {
            char *const element = move.fragment + i * move.element_bytes;
            char *const place = in_memory(move, lane, i);
            memcpy(to_memory ? place : element, to_memory ? element : place, move.element_bytes);
        }
    }
}

void ptx::move_matrices(uint32_t *r, uint32_t address, bool to_memory, bool transposed, Site site)
{
    const Call call(to_memory ? "stmatrix" : "ldmatrix", site);
    MatrixMove move = {shared_place(address, 16, 16, call), reinterpret_cast<uint16_t *>(r)};
    checker->access(move.row, 16, plain_access(to_memory), call.where);
    checker->access(r, 16, plain_access(!to_memory), call.where);
    const auto load = transposed ? move_rows<false, true> : move_rows<false, false>;
    simt_meet(whole_warp, &move, to_memory ? move_rows<true, false> : load, call.what, 0, site);
}

void simt::wmma_move(void *fragment, void *matrix, unsigned pitch, unsigned bytes, bool by_rows,
                     bool to_memory, Site site)
{
    const Call call(to_memory ? "wmma::store_matrix_sync()" : "wmma::load_matrix_sync()", site);
    /* CUDA asks for 32 bytes everywhere. But the compiler chooses where an array of shared memory
     * begins, 16 bytes are enough for the hardware, and many programs rely on that. */
    const unsigned alignment = simt_is_shared(matrix) ? 16 : 32;
    if (reinterpret_cast<uintptr_t>(matrix) % alignment)
        fail_at(call, "the matrix begins at %p, not at a multiple of %u bytes", matrix, alignment);
    if (pitch * bytes % 16 || pitch < 16)
        fail_at(call, "rows are %u elements apart; it must be a multiple of %u, 16 or more", pitch,
                16 / bytes);
    FragmentMove move = {static_cast<char *>(fragment), static_cast<char *>(matrix), pitch, bytes,
                         by_rows};
    const AccessKind kind = plain_access(to_memory);
    const unsigned lane = current_thread->lane, step = by_rows ? 2 : 1;
    /* To the checker halves move as by ldmatrix: each lane moves 16 bytes, half a row (or column)
     * of the matrix. Floats move as each lane holds them: pairs along a row, or one by one. */
    if (bytes == 2)
        checker->access(move.matrix + (lane % 16 * pitch + lane / 16 * 8) * 2, 16, kind,
                        call.where);
    for (unsigned i = 0; bytes == 4 && i < fragment_elements; i += step)
        checker->access(in_memory(move, lane, i), step * 4, kind, call.where);
    checker->access(fragment, fragment_elements * bytes, plain_access(!to_memory), call.where);
    simt_meet(whole_warp, &move, to_memory ? move_fragments<true> : move_fragments<false>,
              call.what, 0, site);
}

void simt::multiply_fragments(float *d, const void *a, const void *b, const float *c, unsigned cols,
                              bool bfloat16, Site site)
{
    const Call call(cols == 8 ? "mma_m16n8k16" : "wmma::mma_sync()", site);
    const size_t elements = cols / 2; /* of b, c and d */
    Multiplication product = {d, static_cast<const uint16_t *>(a), static_cast<const uint16_t *>(b),
                              c, bfloat16};
    /* Registers are variables of the thread, and nothing is reported about them. Where a kernel
     * passes other memory in their place, it reads or writes that memory. */
    checker->access(d, elements * sizeof *d, plain_write, call.where);
    checker->access(a, fragment_elements * sizeof *product.a, plain_read, call.where);
    checker->access(b, elements * sizeof *product.b, plain_read, call.where);
    if (c != d)
        checker->access(c, elements * sizeof *c, plain_read, call.where);
    checker->added(&counters::matrix_multiplies, 16 * cols * product_depth / warp_size);
    simt_meet(whole_warp, &product, cols == 8 ? run_product<8> : run_product<16>, call.what, 0,
              site);
}
