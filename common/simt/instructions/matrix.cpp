/* Matrices in a warp's registers: ldmatrix, stmatrix, mma.sync, and wmma's fragments. See
 * common/ptx.cuh for layouts. */
#include "instructions/matrix_product.h"
#include "instructions/asynchronous.h"
#include "run/engine.h"
#include <mma.h>
#include <ptx.cuh>

namespace simt
{

static AccessKind plain_access(bool writes) { return writes ? plain_write : plain_read; }

/* ---- ldmatrix and stmatrix ---- */

struct MatrixMove {
    char *row;
    uint32_t *r;
};

/* Lane 8 * j + i has row i of matrix j. */
static MatrixMove &move_of(void *const *slot, unsigned lane)
{
    return *static_cast<MatrixMove *>(slot[lane]);
}

template <bool to_memory>
static void move_rows(void *const *slot, unsigned lanes)
{
    require_whole_warp(lanes);
    for (unsigned lane = 0; lane < warp_size; lane++)
        for (unsigned j = 0; j < 4; j++) {
            void *const pair = &move_of(slot, lane).r[j];
            char *const place = move_of(slot, 8 * j + lane / 4).row + lane % 4 * 4;
            memcpy(to_memory ? place : pair, to_memory ? pair : place, 4);
        }
}

static void load_transposed(void *const *slot, unsigned lanes)
{
    require_whole_warp(lanes);
    for (unsigned lane = 0; lane < warp_size; lane++)
        for (unsigned j = 0; j < 4; j++) {
            uint16_t pair[2];
            for (unsigned i = 0; i < 2; i++)
                memcpy(&pair[i], move_of(slot, 8 * j + lane % 4 * 2 + i).row + lane / 4 * 2, 2);
            memcpy(&move_of(slot, lane).r[j], pair, 4);
        }
}

/* ---- products: mma.sync, and wmma's, whose fragments are all 16 x 16 and lie as a left factor
 * ---- */

constexpr unsigned fragment_elements = 8;

struct Multiplication {
    float *d;
    const uint16_t *a, *b;
    const float *c;
    bool bfloat16;
};

template <unsigned cols>
static void run_product(void *const *slot, unsigned lanes)
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

template <unsigned cols>
static void multiply(Multiplication product, const Call &call)
{
    constexpr size_t elements = cols / 2;
    /* Registers are variables of the thread, of which nothing is reported. Where a kernel passes
     * other memory in their place, it is memory that it reads or writes. */
    checker->access(product.d, elements * sizeof *product.d, plain_write, call.where);
    checker->access(product.a, fragment_elements * sizeof *product.a, plain_read, call.where);
    checker->access(product.b, elements * sizeof *product.b, plain_read, call.where);
    if (product.c != product.d)
        checker->access(product.c, elements * sizeof *product.c, plain_read, call.where);
    simt_meet(whole_warp, &product, run_product<cols>, call.what, 0, call.site);
}

/* ---- wmma's fragments on their way from or to memory ---- */

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

template <bool to_memory>
static void move_fragments(void *const *slot, unsigned lanes)
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

/*
 * What the calling lane touches, for the checker. Halves move as by ldmatrix: 16 bytes a lane, half
 * a row (or column) of the matrix. Floats move as each lane holds them: pairs along a row, or one
 * by one.
 */
static void touch(const FragmentMove &move, AccessKind kind, const void *where)
{
    unsigned lane = current_thread->lane;
    if (move.element_bytes == 2) {
        checker->access(move.matrix + (lane % 16 * move.pitch + lane / 16 * 8) * 2, 16, kind,
                        where);
        return;
    }
    unsigned step = move.by_rows ? 2 : 1;
    for (unsigned i = 0; i < fragment_elements; i += step)
        checker->access(in_memory(move, lane, i), step * 4, kind, where);
}

template <bool to_memory>
static void move_fragment(void *fragment, void *matrix, unsigned pitch, unsigned bytes,
                          bool by_rows, const Call &call)
{
    /* CUDA asks for 32 bytes everywhere. But where an array of shared memory begins is the
     * compiler's choice, 16 bytes are enough for the hardware, and many programs count on that. */
    const unsigned alignment = simt_is_shared(matrix) ? 16 : 32;
    if (reinterpret_cast<uintptr_t>(matrix) % alignment)
        fail_at(call, "the matrix begins at %p, not at a multiple of %u bytes", matrix, alignment);
    if (pitch * bytes % 16 || pitch < 16)
        fail_at(call, "rows are %u elements apart; it must be a multiple of %u, 16 or more", pitch,
                16 / bytes);
    FragmentMove move = {static_cast<char *>(fragment), static_cast<char *>(matrix), pitch, bytes,
                         by_rows};
    touch(move, plain_access(to_memory), call.where);
    checker->access(fragment, fragment_elements * bytes, plain_access(!to_memory), call.where);
    simt_meet(whole_warp, &move, move_fragments<to_memory>, call.what, 0, call.site);
}

} /* namespace simt */

using namespace simt;

static void move_matrices(simt_meeting *run, const uint32_t *r, uint32_t row_address, bool writes,
                          const Call &call)
{
    MatrixMove move = {shared_place(row_address, 16, 16, call), const_cast<uint32_t *>(r)};
    checker->access(move.row, 16, plain_access(writes), call.where);
    checker->access(r, 16, plain_access(!writes), call.where);
    simt_meet(whole_warp, &move, run, call.what, 0, call.site);
}

void ptx::ldmatrix_x4(uint32_t *r, uint32_t row_address, Site site)
{
    move_matrices(move_rows<false>, r, row_address, false, {"ldmatrix", site});
}

void ptx::ldmatrix_x4_transposed(uint32_t *r, uint32_t row_address, Site site)
{
    move_matrices(load_transposed, r, row_address, false, {"ldmatrix", site});
}

void ptx::stmatrix_x4(uint32_t row_address, const uint32_t *r, Site site)
{
    move_matrices(move_rows<true>, r, row_address, true, {"stmatrix", site});
}

void ptx::mma_m16n8k16(float *d, const uint32_t *a, const uint32_t *b, bool bfloat16, Site site)
{
    multiply<8>({d, reinterpret_cast<const uint16_t *>(a), reinterpret_cast<const uint16_t *>(b), d,
                 bfloat16},
                {"mma_m16n8k16", site});
}

void simt::wmma_load(void *fragment, const void *matrix, unsigned pitch, unsigned element_bytes,
                     bool by_rows, Site site)
{
    move_fragment<false>(fragment, const_cast<void *>(matrix), pitch, element_bytes, by_rows,
                         {"wmma::load_matrix_sync()", site});
}

void simt::wmma_store(const void *fragment, void *matrix, unsigned pitch, unsigned element_bytes,
                      bool by_rows, Site site)
{
    move_fragment<true>(const_cast<void *>(fragment), matrix, pitch, element_bytes, by_rows,
                        {"wmma::store_matrix_sync()", site});
}

void simt::wmma_multiply(float *d, const uint16_t *a, const uint16_t *b, const float *c,
                         bool bfloat16, Site site)
{
    multiply<16>({d, a, b, c, bfloat16}, {"wmma::mma_sync()", site});
}
