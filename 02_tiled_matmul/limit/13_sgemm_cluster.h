/*
 * The plan of 13_sgemm_cluster.cu in plain C: the one or two launches that compute C.
 */
#ifndef SGEMM_CLUSTER_H
#define SGEMM_CLUSTER_H

#include "12_sgemm.h"

/* Clusters begin with this architecture; older devices run sgemm. */
enum { SGEMM_CLUSTER_ARCHITECTURE = 90 };

/*
 * X(BM, BN, TM, TN, BLOCKS, GROUPS, RESIDENT) for each way to compute a tile of C: a thread
 * computes TM x TN sums, a cluster has BLOCKS blocks of GROUPS groups of warps, RESIDENT blocks are
 * to fit on a multiprocessor.
 */
#define SGEMM_CLUSTER_TILES(X)                                                                     \
    X(128, 256, 8, 16, 1, 1, 1)                                                                    \
    X(80, 160, 10, 10, 2, 2, 1)                                                                    \
    X(64, 128, 8, 8, 1, 1, 3)                                                                      \
    X(64, 128, 8, 8, 2, 1, 3)                                                                      \
    X(64, 128, 8, 8, 8, 1, 3)                                                                      \
    X(64, 128, 8, 8, 1, 2, 1)                                                                      \
    X(64, 128, 8, 8, 2, 2, 1)                                                                      \
    X(128, 64, 8, 8, 1, 1, 3)                                                                      \
    X(128, 64, 8, 8, 2, 1, 3)                                                                      \
    X(128, 64, 8, 8, 8, 1, 3)                                                                      \
    X(128, 64, 8, 8, 1, 2, 1)                                                                      \
    X(128, 64, 8, 8, 2, 2, 1)

enum { CLUSTER_LARGE, CLUSTER_MEDIUM }; /* the first two; the others are small */

struct cluster_tile {
    int BM, BN, blocks, groups; /* blocks of a cluster, groups of a block */
    int threads, shared_bytes;  /* of a block */
};

/* Several shares have an inbox as large as the tile, too. */
#define CLUSTER_TILE(bm, bn, tm, tn, blocks, groups, resident)                                     \
    {(bm),                                                                                         \
     (bn),                                                                                         \
     (blocks),                                                                                     \
     (groups),                                                                                     \
     (bm) / (tm) * ((bn) / (tn)) * (groups),                                                       \
     (SGEMM_STAGES * SGEMM_BK * ((bm) + SGEMM_PAD + (bn)) +                                        \
      ((blocks) * (groups) > 1 ? (bm) * (bn) : 0)) *                                               \
         (groups) * (int)sizeof(float)},
static const struct cluster_tile cluster_tiles[] = {SGEMM_CLUSTER_TILES(CLUSTER_TILE)};
#undef CLUSTER_TILE

/* The tiles of C that a launch computes: `beside` tiles from column `col` on, in rows of
 * `beside_across`; then the others, from row `row` on, in rows of `across`. */
struct region {
    long long tiles;
    int beside, beside_across, col, row, across;
};

/* C [M, N] without its first `rows` rows of its first `cols` columns, which are whole tiles. */
static inline struct region region_of(const struct cluster_tile *tile, int M, int N, int rows,
                                      int cols)
{
    const int beside_across = ceil_div(N - cols, tile->BN), across = ceil_div(N, tile->BN);
    const long long beside = (long long)(rows / tile->BM) * beside_across;
    const struct region region = {beside + (long long)ceil_div(M - rows, tile->BM) * across,
                                  (int)beside,
                                  beside_across,
                                  cols,
                                  rows,
                                  across};
    return region;
}

/* Where the region's tile of this number begins. */
static inline __host__ __device__ struct tile_place region_place(int number, struct region region,
                                                                 int BM, int BN)
{
    const int below = number - region.beside;
    const struct tile_place place = {
        below < 0 ? number / region.beside_across * BM : region.row + below / region.across * BM,
        below < 0 ? region.col + number % region.beside_across * BN : below % region.across * BN};
    return place;
}

/* What an H200 took, of what the arithmetic alone would say: */
/* the large tile reads shared memory less often for its arithmetic */
static const double LARGE_TIME = 0.93;
/* one block on a multiprocessor, and its warps fill it */
static const double TWO_GROUPS_TIME = 0.97;
static const double ONE_GROUP_TIME = 1.08; /* one block, and no other multiplies while it waits */
/* blocks of two groups, which come one after the other */
static const double SEQUENCE_TIME = 1.08;
/* clusters of more than two, whose blocks are spread unevenly */
static const double MANY_BLOCKS_TIME = 1.3;

/* The busiest multiprocessor's time in arbitrary units: blocks times a block's multiply-adds. */
static inline double expected_time(int tile, long long tiles, int multiprocessors)
{
    const struct cluster_tile *of = &cluster_tiles[tile];
    const long long blocks = tiles * of->blocks;
    const double busiest = (double)((blocks + multiprocessors - 1) / multiprocessors);
    const double work = busiest * of->BM * of->BN / of->blocks;
    if (tile == CLUSTER_LARGE)
        return work * LARGE_TIME;
    if (tile == CLUSTER_MEDIUM)
        return work;
    if (of->groups > 1)
        return work * (busiest == 1.0 ? TWO_GROUPS_TIME : SEQUENCE_TIME);
    return work * (of->blocks > 2 ? MANY_BLOCKS_TIME : 1.0) *
           (busiest == 1.0 ? ONE_GROUP_TIME : 1.0);
}

/* A launch, and how long it is expected to take: block b belongs to the region's tile b / blocks of
 * a cluster. */
struct cluster_launch {
    int tile; /* of cluster_tiles */
    struct region region;
    double time;
};

static inline struct cluster_launch cluster_launch_of(int tile, int M, int N, int rows, int cols,
                                                      const struct device_limits *device)
{
    const struct region region = region_of(&cluster_tiles[tile], M, N, rows, cols);
    const struct cluster_launch launch = {
        tile, region, expected_time(tile, region.tiles, device->multiprocessors)};
    return launch;
}

/* Whether the device can run such tiles on C without its first rows x cols elements. */
static inline bool cluster_tile_fits(const struct cluster_tile *tile, int N, int K, int rows,
                                     int cols, const struct device_limits *device)
{
    const int shares = tile->blocks * tile->groups;
    /* A share shorter than that would be spent on filling the stages. */
    const bool too_short = shares > 1 && ceil_div(K, SGEMM_BK) < shares * SGEMM_STAGES / 2;
    /* A tile beside the first rows must end where they end: those that begin there are as wide as
     * C, and what one of its rows is short of would be computed by none. */
    const bool ends = cols == N || rows % tile->BM == 0;
    return tile->shared_bytes <= device->shared_bytes && !too_short && ends;
}

/* The quickest for C without its first rows x cols elements, and of equally quick ones that with
 * the fewest tiles. */
static inline struct cluster_launch quickest(int M, int N, int K, int rows, int cols,
                                             const struct device_limits *device)
{
    struct cluster_launch best = {-1, {0, 0, 0, 0, 0, 0}, 0.0};
    for (int i = 0; i < (int)(sizeof cluster_tiles / sizeof *cluster_tiles); i++) {
        if (!cluster_tile_fits(&cluster_tiles[i], N, K, rows, cols, device))
            continue;
        const struct cluster_launch launch = cluster_launch_of(i, M, N, rows, cols, device);
        if (best.tile < 0 || launch.time < best.time ||
            (launch.time == best.time && launch.region.tiles < best.region.tiles))
            best = launch;
    }
    return best;
}

/* The launches of a product: one for all of C; or one for the large tiles that lie inside and one
 * for the rest. */
struct sgemm_cluster_plan {
    int count;
    struct cluster_launch launches[2];
};

/* Of a device that has clusters; small tiles fit every one of them. */
static inline struct sgemm_cluster_plan plan_sgemm_cluster(int M, int N, int K,
                                                           const struct device_limits *device)
{
    const struct cluster_tile *large = &cluster_tiles[CLUSTER_LARGE];
    const int rows = M / large->BM * large->BM, cols = N / large->BN * large->BN;
    struct sgemm_cluster_plan plan = {1, {quickest(M, N, K, 0, 0, device)}};
    if (rows == 0 || cols == 0 || large->shared_bytes > device->shared_bytes)
        return plan;
    const struct cluster_launch inside = cluster_launch_of(CLUSTER_LARGE, rows, cols, 0, 0, device);
    const struct cluster_launch rest = quickest(M, N, K, rows, cols, device);
    if (inside.time + rest.time < plan.launches[0].time) {
        plan.count = 2;
        plan.launches[0] = inside;
        plan.launches[1] = rest;
    }
    return plan;
}

#endif
