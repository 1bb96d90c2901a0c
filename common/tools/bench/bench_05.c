#include "bench.h"
#include "problems/attention.h"

extern const struct step step_05;

/* batch, heads, kv_heads, seq, seq_q, seq_kv, head_dim, causal. The last shape has one query and
 * many keys, as when a model writes its answer. */
static const struct bench_shape shapes[] = {
    {"B64 H32 N256 d64", {64, 32, 0, 256, 0, 0, 64, 0}},
    {"B32 H32 N512 d64", {32, 32, 0, 512, 0, 0, 64, 0}},
    {"B16 H32 N1024 d64", {16, 32, 0, 1024, 0, 0, 64, 0}},
    {"B8 H32 N2048 d64", {8, 32, 0, 2048, 0, 0, 64, 0}},
    {"B4 H32 N4096 d64", {4, 32, 0, 4096, 0, 0, 64, 0}},
    {"B1 H8 1x131072 d64", {1, 8, 0, 0, 1, 131072, 64, 0}},
    {NULL, {0}},
};

const struct bench bench = {
    "05_flash_v2", &attention_problem, shapes, "B4 H32 N4096 d64", &step_05, NULL, NULL};
