#include "bench.h"
#include "peers.h"

extern const struct step step_03;

static const struct bench_shape shapes[] = {
    {"65536x128", {65536, 128}},     {"65536x1024", {65536, 1024}},
    {"16384x4096", {16384, 4096}},   {"16384x8192", {16384, 8192}},
    {"4096x32768", {4096, 32768}},   {"2048x131072", {2048, 131072}},
    {"65536x1023", {65536, 1023}},   {"16384x4095", {16384, 4095}},
    {"2048x131071", {2048, 131071}}, {NULL, {0}},
};

const struct bench bench = {"03_online_softmax", &softmax_problem, shapes, "16384x4096", &step_03,
                            cudnn_kernels,       cudnn_version};
