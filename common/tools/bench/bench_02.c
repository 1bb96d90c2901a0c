#include "bench.h"
#include "peers.h"

extern const struct step step_02;

/* The shapes are squares, squares beside a power of two, and shapes that leave most processors
 * without a large tile. */
static const struct bench_shape shapes[] = {
    {"1024x1024x1024", {1024, 1024, 1024}},
    {"2048x2048x2048", {2048, 2048, 2048}},
    {"4095x4095x4095", {4095, 4095, 4095}},
    {"4096x4096x4096", {4096, 4096, 4096}},
    {"4097x4097x4097", {4097, 4097, 4097}},
    {"8192x8192x8192", {8192, 8192, 8192}},
    {"1000x777x1313", {1000, 777, 1313}},
    {"8192x64x8192", {8192, 64, 8192}},
    {"64x8192x8192", {64, 8192, 8192}},
    {"8192x8192x64", {8192, 8192, 64}},
    {NULL, {0}},
};

const struct bench bench = {"02_tiled_matmul", &matmul_problem, shapes,        "4096x4096x4096",
                            &step_02,          cublas_kernels,  cublas_version};
