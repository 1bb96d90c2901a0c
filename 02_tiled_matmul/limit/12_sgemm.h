/*
 * The plan of 12_sgemm.cu in plain C: the shape of tile that computes C.
 */
#ifndef SGEMM_H
#define SGEMM_H

#include "device/tiles.cuh"

#include <float.h>
#include <stdbool.h>

/* Depth of a tile along K, tiles in shared memory, padding of A's rows, rows of a thread. */
enum { SGEMM_BK = 16, SGEMM_STAGES = 3, SGEMM_PAD = 4, SGEMM_TM = 8 };

/*
 * X(BM, BN, TN, BLOCKS, architecture, time) for each shape: a thread computes 8 x TN sums, BLOCKS
 * blocks are to fit on a multiprocessor of that architecture or a newer one, `time` is for as many
 * multiply-adds as the others, measured on an H200. The first reads shared memory less often for
 * its arithmetic; its stages take more than the 64 KB that a block has on sm_75. The second fits
 * every device.
 */
#define SGEMM_TILES(X)                                                                             \
    X(128, 256, 16, 1, 80, 0.93)                                                                   \
    X(64, 128, 8, 3, 75, 1.0)                                                                      \
    X(128, 64, 8, 3, 75, 1.0)

enum { SGEMM_FITS_ALL = 1 };

struct sgemm_tile {
    int BM, BN, threads, shared_bytes, architecture;
    double work; /* of a tile, in arbitrary units of time */
};

#define SGEMM_TILE(bm, bn, tn, blocks, arch, time)                                                 \
    {(bm),                                                                                         \
     (bn),                                                                                         \
     (bm) / SGEMM_TM * ((bn) / (tn)),                                                              \
     SGEMM_STAGES * SGEMM_BK * ((bm) + SGEMM_PAD + (bn)) * (int)sizeof(float),                     \
     (arch),                                                                                       \
     (bm) * (bn) * (time)},
static const struct sgemm_tile sgemm_tiles[] = {SGEMM_TILES(SGEMM_TILE)};
#undef SGEMM_TILE

/* One launch: block b computes the b-th tile, counted along the rows of C. */
struct sgemm_plan {
    int tile; /* of sgemm_tiles */
    long long blocks;
};

/* The shape whose tiles keep the busiest multiprocessor for the shortest time; of equally quick
 * ones that with fewer tiles. */
static inline struct sgemm_plan plan_sgemm(int M, int N, const struct device_limits *device)
{
    struct sgemm_plan best = {SGEMM_FITS_ALL, 0};
    double best_time = DBL_MAX;
    for (int i = 0; i < (int)(sizeof sgemm_tiles / sizeof *sgemm_tiles); i++) {
        const struct sgemm_tile *tile = &sgemm_tiles[i];
        const long long blocks = (long long)ceil_div(M, tile->BM) * ceil_div(N, tile->BN),
                        waves = (blocks + device->multiprocessors - 1) / device->multiprocessors;
        const double time = ((double)waves + 1e-9 * (double)blocks) * tile->work;
        if (i != SGEMM_FITS_ALL && device->architecture < tile->architecture)
            continue;
        if (time < best_time) {
            best.tile = i;
            best.blocks = blocks;
            best_time = time;
        }
    }
    return best;
}

/* Where a tile of BM x BN begins. */
struct tile_place {
    int row0, col0;
};

static inline __host__ __device__ struct tile_place sgemm_place(unsigned int number, int N, int BM,
                                                                int BN)
{
    const unsigned int across = (unsigned int)ceil_div(N, BN);
    const struct tile_place place = {(int)(number / across) * BM, (int)(number % across) * BN};
    return place;
}

#endif
