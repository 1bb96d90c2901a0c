#include "bench.h"
#include "problems/attention.h"

extern const struct step step_04;

/* batch, heads, kv_heads, seq, seq_q, seq_kv, head_dim, causal */
static const struct bench_shape shapes[] = {
    {"B16 H32 N256 d64", {16, 32, 0, 256, 0, 0, 64, 0}},
    {"B16 H32 N512 d64", {16, 32, 0, 512, 0, 0, 64, 0}},
    {"B16 H32 N1024 d64", {16, 32, 0, 1024, 0, 0, 64, 0}},
    {"B4 H32 N4096 d64", {4, 32, 0, 4096, 0, 0, 64, 0}},
    {NULL, {0}},
};

const struct bench bench = {
    "04_flash_v1", &attention_problem, shapes, "B4 H32 N4096 d64", &step_04, NULL, NULL};
