/* Step 02's rows, a table for each ladder: common/problems/matmul.h says what the fields are. */
#include "02_step.h"
#include "harness/ladder.h"
#include "02_tiled_matmul/limit/12_sgemm.h"
#include "02_tiled_matmul/limit/13_sgemm_cluster.h"
#include "device/device.h"

static struct cost sgemm_cost_on(const struct matmul_kernel *row, int M, int N, int K,
                                 const struct device_limits *device)
{
    const struct sgemm_plan plan = plan_sgemm(M, N, device);
    struct matmul_kernel chosen = *row;
    chosen.BM = sgemm_tiles[plan.tile].BM;
    chosen.BN = sgemm_tiles[plan.tile].BN;
    return matmul_tiles_cost(&chosen, plan.blocks, M, N, K);
}

/* A row's cost is that on the current device. */
static struct cost sgemm_cost(const struct matmul_kernel *row, int M, int N, int K)
{
    struct device_limits device;
    current_device(&device);
    return sgemm_cost_on(row, M, N, K, &device);
}

static struct cost sgemm_cluster_cost_on(const struct matmul_kernel *row, int M, int N, int K,
                                         const struct device_limits *device)
{
    if (device->architecture < SGEMM_CLUSTER_ARCHITECTURE)
        return sgemm_cost_on(row, M, N, K, device);
    const struct sgemm_cluster_plan plan = plan_sgemm_cluster(M, N, K, device);
    struct cost cost = {0, 0, 0, 0};
    for (int i = 0; i < plan.count; i++) {
        const struct cluster_launch *launch = &plan.launches[i];
        struct matmul_kernel chosen = *row;
        chosen.BM = cluster_tiles[launch->tile].BM;
        chosen.BN = cluster_tiles[launch->tile].BN;
        const struct cost part = matmul_tiles_cost(&chosen, launch->region.tiles, M, N, K);
        cost.loads += part.loads;
        cost.bytes_read += part.bytes_read;
        cost.stores = part.stores;
        cost.bytes_written = part.bytes_written;
    }
    return cost;
}

static struct cost sgemm_cluster_cost(const struct matmul_kernel *row, int M, int N, int K)
{
    struct device_limits device;
    current_device(&device);
    return sgemm_cluster_cost_on(row, M, N, K, &device);
}

/* Both edges of a tile of 128 x 256 and of a ring of three stages, with few tiles and with more. */
#define WIDE_EDGES                                                                                 \
    "--sizes 512x512x32,511x509x35,500x1000x17,200x1020x1,100x2039x20,65x2048x40,"                 \
    "200x300x160,129x257x171"
/* A long K is shared by few tiles: the shares are equal or not, and the first may be ragged. */
#define LONG_K                                                                                     \
    "--sizes 64x64x256,1x1x256,100x100x300,63x129x257,130x33x511,3x300x272,300x3x4099,"            \
    "128x128x1000;--sizes 66x68x260 --offset 4,8,12"
/*
 * These meet each choice of sgemm_cluster on a device of 8 multiprocessors, with whole tiles and
 * ragged ones, and with rows of B that are aligned to 16 bytes or not: tall and wide tiles for 1, 2
 * and 8 blocks of one group and 1 and 2 blocks of two; tiles of 80 x 160; large tiles with a second
 * launch for the rest; every number of steps along K up to 17, so that each number of shares is met
 * with the fewest steps.
 */
#define CHOICES                                                                                    \
    "--sizes 1024x64x32,1019x33x19,1150x60x50,1150x61x50,1020x64x48,1017x61x50,"                   \
    "512x64x128,499x61x119,128x64x256,67x63x263,64x1024x32,33x1019x19,60x1152x50,"                 \
    "61x1150x50,64x1024x48,61x1017x50,64x512x128,61x499x119,64x128x256,63x67x263,"                 \
    "160x320x96,155x317x130,513x512x20,520x515x70,256x1153x81,256x1156x96,"                        \
    "30x70x16,30x70x32,30x70x48,30x70x64,30x70x80,30x70x96,30x70x112,30x70x128,30x70x144,"         \
    "30x70x160,30x70x176,30x70x192,30x70x208,30x70x224,30x70x240,30x70x256,30x70x272,"             \
    "30x72x15,30x72x30,30x72x45,30x72x60,30x72x75,30x72x90,30x72x105,30x72x120,30x72x135,"         \
    "30x72x150,30x72x165,30x72x180,30x72x195,30x72x210,30x72x225,30x72x256,30x72x271"

static const struct matmul_kernel core[] = {
    MATMUL_ROW(shared_tile, "01_shared_tile.cu",
               "a block shares a tile of A and of B through shared memory",
               .about.claims =
                   "--m 128 --n 128 --k 64: global_loads <= 163840, shared_loads >= 1600000",
               .cost = matmul_tiled_cost, .BM = 16, .BN = 16, .load_width = 1, .store_width = 1),
    MATMUL_ROW(column_tile, "02_column_tile.cu", "a thread computes a column of 8 elements",
               .about.claims = "--m 128 --n 128 --k 64: shared_loads <= 1474560, global_loads <= "
                               "40960, shared_loads >= 200000",
               .about.after = "shared_tile", .cost = matmul_tiled_cost, .BM = 64, .BN = 64,
               .load_width = 1, .store_width = 1),
    MATMUL_ROW(register_tile, "03_register_tile.cu",
               "a thread computes 8 x 8 elements from registers",
               .about.claims = "--m 128 --n 128 --k 64: shared_loads <= 327680, global_loads <= "
                               "20480, shared_loads >= 50000",
               .about.after = "column_tile", .cost = matmul_tiled_cost, .BM = 128, .BN = 128,
               .load_width = 1, .store_width = 1),
    MATMUL_ROW(vectorized, "04_vectorized.cu",
               "16 bytes per load, from global and from shared memory",
               .about.claims = "--m 128 --n 128 --k 64: global_loads <= 5120, shared_loads <= "
                               "81920, shared_wavefronts <= 10880, global_stores <= 5120",
               .about.after = "register_tile", .cost = matmul_tiled_cost, .BM = 128, .BN = 128,
               .load_width = 4, .store_width = 4),
    MATMUL_ROW(pipelined, "05_pipelined.cu",
               "the next tile travels through registers during the arithmetic",
               .about.claims = "--m 128 --n 128 --k 64: loads_ahead >= 2800, barriers <= 10, "
                               "global_loads <= 5120, shared_wavefronts <= 10880",
               .about.after = "vectorized", .cost = matmul_tiled_cost, .BM = 128, .BN = 128,
               .load_width = 4, .store_width = 4),
    MATMUL_ROW(async, "06_async.cu", "tiles travel past the registers, three ahead",
               .about.claims = "--m 128 --n 128 --k 64: copies_in_flight >= 12000, copies_ahead >= "
                               "8000, barriers <= 10, shared_wavefronts <= 11120",
               .about.after = "pipelined", .cost = matmul_tiled_cost, .BM = 128, .BN = 128,
               .load_width = 1, .store_width = 4),
    {.about.name = NULL},
};

static const struct matmul_kernel limit[] = {
    MATMUL_ROW(
        warp_tile, "07_warp_tile.cu",
        "square warp tiles, operands one step ahead: the inner loop is almost all multiply-add",
        .about.after = "async", .cost = matmul_tiled_cost, .BM = 128, .BN = 128, .load_width = 1,
        .store_width = 4),
    MATMUL_ROW(deep_tile, "08_deep_tile.cu", "tiles twice as deep: half as many barriers",
               .about.claims = "--m 128 --n 128 --k 64: barriers <= 6, copies_in_flight >= 10000",
               .about.after = "warp_tile", .cost = matmul_tiled_cost, .BM = 128, .BN = 128,
               .load_width = 1, .store_width = 4),
    MATMUL_ROW(ragged_first, "09_ragged_first.cu",
               "the ragged tile comes first, and nothing is compared in the loop",
               .about.after = "deep_tile", .cost = matmul_whole_tiles_cost, .BM = 128, .BN = 128,
               .load_width = 1, .store_width = 4),
    MATMUL_ROW(
        wide_tile, "10_wide_tile.cu", "8 x 16 elements per thread, and 16-byte copies of B",
        .about.claims = "--m 128 --n 256 --k 64: shared_loads <= 124800, global_loads <= 15360",
        .about.edges = WIDE_EDGES, .about.after = "ragged_first", .about.architecture = "sm_80",
        .cost = matmul_whole_tiles_cost, .BM = 128, .BN = 256, .load_width = 4, .store_width = 4),
    MATMUL_ROW(scheduled, "11_scheduled.cu",
               "each read, copy and product has its place in the loop, and stays there",
               .about.after = "wide_tile", .about.architecture = "sm_80", .about.edges = WIDE_EDGES,
               .cost = matmul_whole_tiles_cost, .BM = 128, .BN = 256, .load_width = 4,
               .store_width = 4),
    MATMUL_ROW(sgemm, "12_sgemm.cu", "smaller tiles where 128 x 256 would leave processors idle",
               .about.claims =
                   "--m 128 --n 128 --k 64: wave_accesses <= 63360, shared_loads >= 20000",
               .about.edges = LONG_K, .about.after = "scheduled", .cost = sgemm_cost,
               .load_width = 4, .store_width = 4),
    MATMUL_ROW(
        sgemm_cluster, "13_sgemm_cluster.cu",
        "where tiles are few, blocks and groups of warps share one, each with a share of K",
        .about.claims = "--m 128 --n 128 --k 64: wave_accesses <= 39040, shared_loads >= 20000",
        .about.edges = CHOICES ";" LONG_K, .about.architecture = "sm_90", .about.falls_back = true,
        .cost = sgemm_cluster_cost, .load_width = 4, .store_width = 4),
    {.about.name = NULL},
};

const struct step step_02 = {"02_tiled_matmul",
                             {{"core", &matmul_problem, core}, {"limit", &matmul_problem, limit}}};
