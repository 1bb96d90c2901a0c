#include "bench.h"
#include "peers.h"

extern const struct step step_01;

static const struct bench_shape shapes[] = {
    {"256x256x256", {256, 256, 256}},       {"512x512x512", {512, 512, 512}},
    {"1024x1024x1024", {1024, 1024, 1024}}, {"2048x2048x2048", {2048, 2048, 2048}},
    {"4096x4096x4096", {4096, 4096, 4096}}, {NULL, {0}},
};

const struct bench bench = {"01_naive_matmul", &matmul_problem, shapes,        "4096x4096x4096",
                            &step_01,          cublas_kernels,  cublas_version};
