/* Step 01: the naive matmul, read down columns and along rows. */
#include "01_naive_matmul/01_step.h"
#include "matmul_cases.h"

TEST(shapes, cubes)
{
    check_cubes(naive_matmul_kernels);
}

TEST(shapes, rectangles)
{
    check_rectangles(naive_matmul_kernels);
}

TEST(shapes, depths)
{
    check_depths(naive_matmul_kernels);
}

TEST(shapes, empty)
{
    check_empty(naive_matmul_kernels);
}

TEST(shapes, long_sides)
{
    check_long_sides(naive_matmul_kernels);
}

TEST(inputs, kinds)
{
    check_kinds(naive_matmul_kernels);
}

TEST(inputs, infinities)
{
    check_infinities(naive_matmul_kernels);
}

TEST(inputs, misaligned)
{
    check_misaligned(naive_matmul_kernels);
}

TEST(inputs, one_misaligned)
{
    check_one_off(naive_matmul_kernels);
}

TEST(arguments, refused)
{
    check_refusals(naive_matmul_kernels);
}

TEST(counters, costs)
{
    static const struct matmul_case cases[] = {
        {64, 64, 64}, {50, 70, 33}, {1, 100, 9}, {100, 1, 9}, {7, 9, 0}};
    check_costs(naive_matmul_kernels, cases, sizeof cases / sizeof *cases);
}

/* With whole tiles: a request of 32 lanes is 32 sectors where they walk down a column, 4 along a
 * row, 1 on the spot. */
static void check_sectors(const char *name, unsigned long long per_A, unsigned long long per_B,
                          unsigned long long per_C)
{
    enum { M = 64, N = 96, K = 32 };
    const unsigned long long warps = M * N / 32;
    struct counters counters;
    if (!count(naive_matmul_kernels, name, M, N, K, &counters))
        return;
    cr_expect(counters.global_load_requests == 2 * warps * K, "%s: %llu load requests", name,
              counters.global_load_requests);
    cr_expect(counters.global_load_sectors == (per_A + per_B) * warps * K,
              "%s: %llu load sectors, not %llu", name, counters.global_load_sectors,
              (per_A + per_B) * warps * K);
    cr_expect(counters.global_store_requests == warps, "%s: %llu store requests", name,
              counters.global_store_requests);
    cr_expect(counters.global_store_sectors == per_C * warps, "%s: %llu store sectors, not %llu",
              name, counters.global_store_sectors, per_C * warps);
}

TEST(counters, sectors)
{
    check_sectors("uncoalesced", 32, 1, 32);
    check_sectors("coalesced", 1, 4, 4);
}

TEST(launches, errors_and_streams)
{
    static const struct matmul_case cases[] = {{33, 65, 17}, {70, 20, 40}};
    check_launches(naive_matmul_kernels, cases, 2);
}
