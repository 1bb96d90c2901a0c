/* Proofs of step 02's plans: exactly one block computes each element of C. */
#include "02_tiled_matmul/02_step.c"
#include "tests/support/harness.h"
#include "plans.h"
#include "harness/refusal.h"

#include <limits.h>

/* Every side of a tile is a multiple of this many elements. */
enum { CELL_ROWS = 16, CELL_COLS = 32 };

/* A proof paints at most this many tiles. Of more it judges only the first and the last. */
enum { MOST_PAINTED = 1 << 14 };

struct matmul_shape {
    int M, N, K;
};

static const struct matmul_kernel row = {.load_width = 4, .store_width = 4};

/* Returns false where no machine has the memory or the time, and the cost fits in no integer. */
static bool could_run(struct matmul_shape c)
{
    const double m = c.M, n = c.N, k = c.K;
    return m * n + n * k + k * m < 0x1p45 && m * n * k < 0x1p60;
}

static void check_cost(struct cost cost, struct matmul_shape c)
{
    const long long m = c.M, n = c.N, k = c.K;
    cr_assert(cost.stores >= m * n / 4 && cost.stores <= m * n && cost.bytes_written == 4 * m * n,
              "%dx%dx%d stores %lld times, %lld bytes", c.M, c.N, c.K, cost.stores,
              cost.bytes_written);
    cr_assert(cost.bytes_read >= 4 * (m * k + k * n) && cost.loads <= cost.bytes_read / 4 &&
                  cost.loads >= cost.bytes_read / 16,
              "%dx%dx%d loads %lld times, %lld bytes", c.M, c.N, c.K, cost.loads, cost.bytes_read);
}

/* Counts what happened to the plans: painted whole, too large for that, or refused because no grid
 * holds them. */
struct tally {
    int painted, large, refused;
};

static void check_grid(long long tiles, int blocks, int shared_bytes, struct matmul_shape c,
                       const struct device_limits *device)
{
    cr_assert(tiles > 0 && blocks > 0, "%dx%dx%d launches %lld tiles", c.M, c.N, c.K, tiles);
    cr_assert(shared_bytes <= device->shared_bytes, "sm_%d has no %d bytes of shared memory",
              device->architecture, shared_bytes);
}

static void check_sgemm(struct matmul_shape c, const struct device_limits *device,
                        struct tally *tally)
{
    const struct sgemm_plan plan = plan_sgemm(c.M, c.N, device);
    const struct sgemm_tile *tile = &sgemm_tiles[plan.tile];
    check_grid(plan.blocks, 1, tile->shared_bytes, c, device);
    if (plan.blocks > INT_MAX) {
        tally->refused++;
        return;
    }
    const struct tile_place last =
        sgemm_place((unsigned int)plan.blocks - 1, c.N, tile->BM, tile->BN);
    cr_assert(last.row0 >= 0 && last.row0 < c.M && last.row0 + (long long)tile->BM >= c.M &&
                  last.col0 >= 0 && last.col0 < c.N && last.col0 + (long long)tile->BN >= c.N,
              "%dx%d: the last tile begins at %d, %d", c.M, c.N, last.row0, last.col0);
    if (plan.blocks > MOST_PAINTED) {
        tally->large++;
        return;
    }
    struct canvas canvas;
    canvas_begin(&canvas, c.M, c.N, CELL_ROWS, CELL_COLS);
    for (unsigned int number = 0; number < plan.blocks; number++) {
        const struct tile_place place = sgemm_place(number, c.N, tile->BM, tile->BN);
        const int across = (c.N + tile->BN - 1) / tile->BN;
        cr_assert(place.row0 / tile->BM * across + place.col0 / tile->BN == (int)number,
                  "neighbouring blocks do not share rows of A");
        canvas_paint(&canvas, place.row0, (long long)place.row0 + tile->BM, place.col0,
                     (long long)place.col0 + tile->BN);
    }
    cr_assert(canvas_end(&canvas), "sgemm covers %dx%d not once, in tiles of %d x %d", c.M, c.N,
              tile->BM, tile->BN);
    tally->painted++;
}

static void check_sgemm_cluster(struct matmul_shape c, const struct device_limits *device,
                                struct tally *tally)
{
    const struct sgemm_cluster_plan plan = plan_sgemm_cluster(c.M, c.N, c.K, device);
    long long tiles = 0;
    cr_assert(plan.count == 1 || plan.count == 2);
    for (int i = 0; i < plan.count; i++) {
        const struct cluster_launch *launch = &plan.launches[i];
        cr_assert(launch->tile >= 0, "%dx%dx%d: no tile fits sm_%d", c.M, c.N, c.K,
                  device->architecture);
        const struct cluster_tile *tile = &cluster_tiles[launch->tile];
        check_grid(launch->region.tiles, tile->blocks, tile->shared_bytes, c, device);
        cr_assert(tile->BM % (tile->blocks * tile->groups) == 0);
        if (launch->region.tiles * tile->blocks > INT_MAX) {
            tally->refused++;
            return;
        }
        const struct region *region = &launch->region;
        cr_assert(region->across > 0 && region->beside >= 0 && region->beside <= region->tiles &&
                  (region->beside == 0 || region->beside_across > 0));
        const struct tile_place last =
            region_place((int)(region->tiles - 1), *region, tile->BM, tile->BN);
        cr_assert(last.row0 >= 0 && last.row0 < c.M && last.col0 >= 0 && last.col0 < c.N,
                  "%dx%d: the last tile begins at %d, %d", c.M, c.N, last.row0, last.col0);
        tiles += region->tiles;
    }
    if (tiles > MOST_PAINTED) {
        tally->large++;
        return;
    }
    struct canvas canvas;
    canvas_begin(&canvas, c.M, c.N, CELL_ROWS, CELL_COLS);
    for (int i = 0; i < plan.count; i++) {
        const struct cluster_tile *tile = &cluster_tiles[plan.launches[i].tile];
        for (int number = 0; number < plan.launches[i].region.tiles; number++) {
            const struct tile_place place =
                region_place(number, plan.launches[i].region, tile->BM, tile->BN);
            canvas_paint(&canvas, place.row0, (long long)place.row0 + tile->BM, place.col0,
                         (long long)place.col0 + tile->BN);
        }
    }
    cr_assert(canvas_end(&canvas),
              "sgemm_cluster covers %dx%dx%d not once, on sm_%d with %d multiprocessors, in %d "
              "launches, the last one's tiles %d x %d",
              c.M, c.N, c.K, device->architecture, device->multiprocessors, plan.count,
              cluster_tiles[plan.launches[plan.count - 1].tile].BM,
              cluster_tiles[plan.launches[plan.count - 1].tile].BN);
    tally->painted++;
}

static void check_shape(struct matmul_shape c, const struct device_limits *device,
                        struct tally *tally)
{
    check_sgemm(c, device, tally);
    if (device->architecture >= SGEMM_CLUSTER_ARCHITECTURE)
        check_sgemm_cluster(c, device, tally);
    if (could_run(c)) {
        check_cost(sgemm_cost_on(&row, c.M, c.N, c.K, device), c);
        check_cost(sgemm_cluster_cost_on(&row, c.M, c.N, c.K, device), c);
    }
}

/* Takes the edges of every side and depth, and shapes that were once computed only in part, on each
 * device. */
TEST(plans_02, edges)
{
    static const int depths[] = {0, 1, 16, 17, 96, 999, 4099};
    static const struct matmul_shape once_wrong[] = {
        {1500, 3200, 1000}, {1500, 3200, 999}, {256, 1153, 81}, {256, 1156, 96}, {3073, 2944, 320}};
    struct tally tally = {0};
    int device = 0;
    for (const int *M = plan_edges; *M >= 0; M++)
        for (const int *N = plan_edges; *N >= 0; N++)
            for (size_t k = 0; k < sizeof depths / sizeof *depths; k++)
                if (*M > 0 && *N > 0) /* matmul_run() launches nothing for an empty C */
                    check_shape((struct matmul_shape){*M, *N, depths[k]},
                                &plan_devices[(size_t)device++ % plan_device_count], &tally);
    for (size_t i = 0; i < sizeof once_wrong / sizeof *once_wrong; i++)
        for (size_t d = 0; d < plan_device_count; d++)
            check_shape(once_wrong[i], &plan_devices[d], &tally);
    cr_expect(tally.painted > 4000, "%d plans were painted", tally.painted);
}

/* Takes any shape that fits a canvas, on one device after the other. */
TEST(plans_02, random_shapes)
{
    uint64_t state = 2;
    struct tally tally = {0};
    for (int n = 0; n < RANDOM_SHAPES; n++) {
        const struct matmul_shape c = {1 + plan_length(&state, 1 << 13),
                                       1 + plan_length(&state, 1 << 13),
                                       plan_length(&state, 1 << 13)};
        check_shape(c, &plan_devices[(size_t)n % plan_device_count], &tally);
    }
    cr_expect(tally.painted > RANDOM_SHAPES, "%d plans were painted", tally.painted);
}

/* Takes sizes as large as matmul_run() allows. */
TEST(plans_02, largest)
{
    uint64_t state = 3;
    struct tally tally = {0};
    for (int n = 0; n < RANDOM_SHAPES; n++) {
        struct matmul_shape c = {MAX_EXTENT - plan_length(&state, MAX_EXTENT - 1),
                                 1 + plan_length(&state, MAX_EXTENT - 1),
                                 plan_length(&state, MAX_EXTENT)};
        if (n % 2 == 0)
            c = (struct matmul_shape){c.N, c.M, c.K};
        check_shape(c, &plan_devices[(size_t)n % plan_device_count], &tally);
    }
    cr_expect(tally.large > RANDOM_SHAPES / 2 && tally.refused > RANDOM_SHAPES / 10,
              "%d plans were too large to be painted, %d were refused", tally.large, tally.refused);
}
