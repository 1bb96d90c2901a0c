#include "bench.h"
#include "problems/attention.h"

extern const struct step step_06;

/* batch, heads, kv_heads, seq, seq_q, seq_kv, head_dim, causal, type; batch·seq = 16384,
 * heads·head_dim = 2048 */
static const struct bench_shape shapes[] = {
    {"N512 d64 causal", {32, 32, 0, 512, 0, 0, 64, 1, TENSOR_F16}},
    {"N2048 d64 causal", {8, 32, 0, 2048, 0, 0, 64, 1, TENSOR_F16}},
    {"N16384 d64 causal", {1, 32, 0, 16384, 0, 0, 64, 1, TENSOR_F16}},
    {"N512 d128 causal", {32, 16, 0, 512, 0, 0, 128, 1, TENSOR_F16}},
    {"N2048 d128 causal", {8, 16, 0, 2048, 0, 0, 128, 1, TENSOR_F16}},
    {"N16384 d128 causal", {1, 16, 0, 16384, 0, 0, 128, 1, TENSOR_F16}},
    {"N16384 d128 full", {1, 16, 0, 16384, 0, 0, 128, 0, TENSOR_F16}},
    {NULL, {0}},
};

const struct bench bench = {
    "06_causal_half", &attention_problem, shapes, "N16384 d128 causal", &step_06, NULL, NULL};
