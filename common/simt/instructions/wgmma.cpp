/* wgmma computes products of a warpgroup, 64 x n x 16. A thread only notes what it is asked for.
 * When a warp waits, and all four have asked, its 16 rows are computed: only then is shared memory
 * read and d written. Until then d holds signalling NaNs. A thread that reads it computes with NaN.
 * A thread that writes it, even by arithmetic in place, which makes a signalling NaN a quiet one,
 * is found out at the wait. */
#include "instructions/asynchronous.h"
#include "instructions/matrix_product.h"
#include "device/backend.h"
#include <algorithm>
#include <ptx.cuh>

using namespace simt;

constexpr unsigned warpgroup_threads = 128, rows_per_warp = 16, max_n = 256;
constexpr unsigned warpgroup_rows = warpgroup_threads / warp_size * rows_per_warp;
static const uint32_t under_way = 0x7fa5a5a5;
/* This many bytes are eight halves, the unit in which operands lie in shared memory. */
constexpr size_t core_row = 16;

/* What a descriptor says: common/device/gpu/ptx.cuh, and PTX ISA, "Matrix Descriptor Format". */
struct Descriptor {
    uint32_t address, leading, stride;
    unsigned span; /* of the swizzle; 0: none */
    unsigned base_offset;
    bool n_along; /* n or m runs along the rows; otherwise k */
};

static Descriptor decode(const ProductShape &product, uint64_t bits)
{
    static const unsigned char spans[] = {0, 128, 64, 32};
    const auto offset = [=](unsigned from) { return uint32_t((bits >> from & 0x3fff) << 4); };
    /* Bits 14 and 15 take wgmma_descriptor_at's carry, bits 52 on wgmma_descriptor's. */
    const uint32_t address = uint32_t((bits & 0xffff) << 4) + uint32_t((bits >> 52 & 0xff) << 18);
    return {address,        offset(16), offset(32), spans[bits >> 62], unsigned(bits >> 49 & 7),
            product.n_along};
}

/* Returns where the eight halves in a row lie that element `along` of M or N at `k` is one of. The
 * swizzle works on the address itself.
 *
 *     no swizzle  8 x 8 pieces of 128 bytes are `leading` apart in k, `stride` in m or n
 *     swizzle     panels with rows of one span, `leading` apart; `stride` for eight rows. A panel
 *                 is wide enough for all k where they lie in a row */
static uint32_t address_of(const Descriptor &d, unsigned along, unsigned k)
{
    const unsigned row = d.n_along ? k : along, piece = (d.n_along ? along : k) / 8;
    if (!d.span)
        return d.address + along / 8 * d.stride + k / 8 * d.leading + row % 8 * uint32_t(core_row);
    const unsigned in_panel = d.span / core_row;
    const uint32_t offset = row / 8 * d.stride + row % 8 * d.span + piece / in_panel * d.leading +
                            piece % in_panel * uint32_t(core_row);
    return uint32_t(swizzled(d.address + offset, d.span));
}

static const char *core_row_at(const Descriptor &d, unsigned along, unsigned k)
{
    return static_cast<const char *>(simt_shared_pointer(address_of(d, along, k)));
}

static void check_descriptor(const Descriptor &d, char operand, unsigned along, const Call &call)
{
    if (d.base_offset)
        fail_at(call, "the descriptor of %c has base offset %u; the CPU backend has only 0",
                operand, d.base_offset);
    if (d.span && d.address % swizzle_period(d.span) >= d.span)
        fail_at(call,
                "the descriptor of %c begins at 0x%x, in row %zu of a %u-byte swizzle, which "
                "repeats every %zu bytes: its tile must be aligned to that",
                operand, d.address, d.address % swizzle_period(d.span) / d.span, d.span,
                swizzle_period(d.span));
    /* The four corners lie in shared memory, and so does everything between them. */
    for (unsigned a : {0u, along - 1})
        for (unsigned k : {0u, product_depth - 1})
            shared_place(address_of(d, a, k), core_row, core_row,
                         {operand == 'A' ? "wgmma, matrix A" : "wgmma, matrix B", call.site});
}

/* Returns the i-th piece of `count` elements from `first` on. Eight neighbours take the rows of one
 * 8 x 8 piece, as the hardware does: other banks. */
static const char *core_row_in_turn(const Descriptor &d, unsigned first, unsigned count, unsigned i)
{
    return d.n_along ? core_row_at(d, first + i / product_depth * 8, i % product_depth)
                     : core_row_at(d, first + i % count, i / count * 8);
}

/* Touches the lane's share of the operands: together the warpgroup touches each row once. */
template <class Touch> static void for_own_core_rows(const Product &product, Touch touch)
{
    unsigned thread = current_thread->linear % warpgroup_threads;
    const unsigned warp = thread / warp_size, lane = thread % warp_size;
    if (!product.registers)
        touch(core_row_in_turn(decode(product, product.a_descriptor), warp * rows_per_warp,
                               rows_per_warp, lane));
    Descriptor b = decode(product, product.b_descriptor);
    for (unsigned i = thread; i < 2 * product.n; i += warpgroup_threads)
        touch(core_row_in_turn(b, 0, product.n, i));
}

/* Reads `count` elements of M or N from `first` on, with all k. In `to` neighbours in M or N are
 * `step` apart, neighbours in k `k_step`. */
static void read_operand(const Descriptor &d, unsigned first, unsigned count, uint16_t *to,
                         unsigned step, unsigned k_step)
{
    const unsigned side = d.n_along ? 8 : 1, down = 8 / side, within = d.n_along ? step : k_step;
    for (unsigned along = 0; along < count; along += side)
        for (unsigned k = 0; k < product_depth; k += down) {
            const char *row = core_row_at(d, first + along, k);
            uint16_t *place = to + along * step + k * k_step;
            if (within == 1)
                memcpy(place, row, core_row);
            else
                for (unsigned i = 0; i < 8; i++)
                    memcpy(&place[i * within], row + 2 * i, 2);
        }
}

/* Reads the 16 rows of the warp, from shared memory or from its lanes' registers. */
static void read_a(Product *const *lanes, unsigned warp, uint16_t *A)
{
    const Product &product = *lanes[0];
    if (!product.registers)
        return read_operand(decode(product, product.a_descriptor), warp * rows_per_warp,
                            rows_per_warp, A, product_depth, 1);
    for (unsigned lane = 0; lane < warp_size; lane++)
        for (unsigned i = 0; i < 4; i++) { /* two neighbours in a row */
            const Element e = of_left(lane, 2 * i);
            memcpy(&A[e.row * product_depth + e.col], &lanes[lane]->a[i], sizeof lanes[lane]->a[i]);
        }
}

/* Computes the number-th of the products that each lane has in flight. */
static void compute(ThreadWork *thread, size_t number, unsigned warp)
{
    constexpr unsigned A_elements = rows_per_warp * product_depth;
    static __thread uint16_t A_bits[A_elements], B_bits[product_depth * max_n];
    static __thread float A[A_elements], B[product_depth * max_n], D[rows_per_warp * max_n];
    Product *lanes[warp_size];
    for (unsigned lane = 0; lane < warp_size; lane++)
        lanes[lane] = &thread[lane].products.work[number];
    const Product &first = *lanes[0];
    const unsigned n = first.n;
    const auto place_of = [n](unsigned lane, unsigned i) {
        const Element e = of_left(lane, i);
        return D + e.row * n + e.col;
    };
    for (unsigned lane = 0; lane < warp_size; lane++) {
        const Product &product = *lanes[lane];
        const bool begins = !product.before.empty();
        const auto is_untouched = [](float &d) { return !memcmp(&d, &under_way, sizeof d); };
        if (begins && !std::all_of(product.d, product.d + n / 2, is_untouched))
            fail_at(product.call,
                    "lane %u wrote to the accumulator while the product was under way; "
                    "wgmma_wait() comes first",
                    lane);
        const float *d = begins ? product.before.data() : product.d;
        for (unsigned i = 0; i < n / 2; i += 2) /* two neighbours */
            memcpy(place_of(lane, i), d + i, 2 * sizeof *d);
    }
    if (!first.accumulate)
        memset(D, 0, rows_per_warp * n * sizeof *D);
    read_a(lanes, warp, A_bits);
    read_operand(decode(first, first.b_descriptor), 0, n, B_bits, 1, n);
    element_values(A, A_bits, A_elements, first.bfloat16);
    element_values(B, B_bits, product_depth * n, first.bfloat16);
    multiply_add(D, A, B, n);
    for (unsigned lane = 0; lane < warp_size; lane++)
        for (unsigned i = 0; i < n / 2; i += 2)
            memcpy(lanes[lane]->d + i, place_of(lane, i), 2 * sizeof *D);
}

static bool is_as_left(const ThreadWork &work, const float *d, unsigned n)
{
    const auto known = work.accumulators.find(d);
    return known != work.accumulators.end() && known->second.size() == n / 2 &&
           !memcmp(d, known->second.data(), n / 2 * sizeof *d);
}

static void complete(void *const *slot, unsigned lanes)
{
    require_whole_warp(lanes);
    const unsigned warp = current_thread->warp->number;
    ThreadWork *const thread = &block_work().thread[warp * warp_size]; /* of lane 0 */
    const unsigned pending = *static_cast<const unsigned *>(slot[0]);
    const size_t count = thread->products.covered(pending);
    for (unsigned lane = 1; lane < warp_size; lane++)
        if (const size_t own = thread[lane].products.covered(pending); own != count)
            simt_fail("wgmma_wait(): lane %u of the warp has started %zu products, lane 0 %zu",
                      lane, own, count);
    for (size_t number = 0; number < count; number++)
        compute(thread, number, warp % 4);
    for (unsigned lane = 0; lane < warp_size; lane++) {
        const std::vector<Product> &products = thread[lane].products.work;
        for (size_t number = 0; number < count; number++)
            if (number + 1 == count || products[number + 1].d != products[number].d)
                thread[lane].accumulators[products[number].d].assign(
                    products[number].d, products[number].d + products[number].n / 2);
        thread[lane].products.forget(count);
    }
}

static void join_warpgroup(std::vector<SharedProduct> &products, const Product &product)
{
    if (product.number == products.size())
        products.push_back(SharedProduct{product, 0});
    SharedProduct &known = products[product.number];
    const ProductShape &asked = product;
    static_assert(std::has_unique_object_representations_v<ProductShape>, "compared by bytes");
    if (memcmp(&known.shape, &asked, sizeof asked) != 0)
        fail_at(product.call,
                "this thread asks for another product than others of its warpgroup, as number %llu "
                "of theirs: shape, type, descriptors or accumulate differ",
                product.number + 1);
    known.threads++;
}

void ptx::wgmma(float *d, unsigned n, const uint32_t *a, uint64_t a_descriptor,
                uint64_t b_descriptor, bool n_along, int accumulate, bool bfloat16, Site site)
{
    const Call call("wgmma", site);
    unsigned thread = current_thread->linear;
    BlockWork &block = block_work();
    ThreadWork &work = block.thread[thread];
    if ((thread | (warpgroup_threads - 1)) >= worker->block->threads)
        fail_at(call, "the last warpgroup of the block is not complete");

    const ProductShape shape = {n,        a != nullptr, n_along,     accumulate != 0,
                                bfloat16, a_descriptor, b_descriptor};
    Product product = {shape, {call, work.products.closed}, d, {}, {}, work.products_issued++};
    /* As for mma, registers are the thread's variables, and anything else is watched. */
    checker->access(d, n / 2 * sizeof *d, plain_write, call.where);
    if (a) {
        checker->access(a, sizeof product.a, plain_read, call.where);
        memcpy(product.a, a, sizeof product.a);
    }

    join_warpgroup(block.warpgroup[thread / warpgroup_threads], product);
    if (!a)
        check_descriptor(decode(product, a_descriptor), 'A', warpgroup_rows, call);
    const Descriptor b = decode(product, b_descriptor);
    check_descriptor(b, 'B', n, call);
    const std::vector<Product> &under_way_too = work.products.work;
    const bool chained = std::any_of(under_way_too.begin(), under_way_too.end(),
                                     [d](const Product &each) { return each.d == d; });
    if (!work.products_fenced && !chained && (a || !is_as_left(work, d, n)))
        fail_at(call,
                "wgmma_fence() is missing: registers were touched since the last wgmma_wait()");
    for_own_core_rows(
        product, [&](const char *row) { checker->access(row, core_row, proxy_read, call.where); });
    if (!chained) {
        product.before.assign(d, d + n / 2);
        for (unsigned i = 0; i < n / 2; i++)
            memcpy(&d[i], &under_way, sizeof under_way);
    }
    checker->noted("wgmma", simt_shared_pointer(b.address), product.group, n, call.where);
    checker->added(&counters::matrix_multiplies,
                   warpgroup_rows * n * product_depth / warpgroup_threads);
    work.products.work.push_back(std::move(product));
}

void ptx::wgmma_fence(void) { thread_work().products_fenced = true; }

void ptx::wgmma_commit(void) { thread_work().products.commit("wgmma_commit"); }

void ptx::wgmma_wait(unsigned pending, Site site)
{
    unsigned thread = current_thread->linear;
    BlockWork &block = block_work();
    ThreadWork &work = block.thread[thread];
    size_t count = work.products.covered(pending);
    if (count > 0) {
        const std::vector<SharedProduct> &all = block.warpgroup[thread / warpgroup_threads];
        const unsigned long long last = work.products.work[count - 1].number;
        wait_until([&] { return all[last].threads == warpgroup_threads; }, site,
                   [] { return "wgmma_wait(), for the other warps of the warpgroup"; });
    }
    for (size_t i = 0; i < count; i++) {
        const Product &product = work.products.work[i];
        for_own_core_rows(product, [&](const char *row) {
            checker->counted(row, core_row, false, product.call.where);
            checker->access(row, core_row, proxy_read, product.call.where);
        });
    }
    checker->added(&counters::products_in_flight, work.products.work.size() - count);
    checker->noted("wgmma_wait", nullptr, pending, count, __builtin_return_address(0));
    work.products_fenced = false;
    simt_meet(whole_warp, &pending, complete, "wgmma_wait()", 1, site);
}
