/* Proofs of the plans of steps 04, 05 and 06 share these calls of attention. */
#ifndef TESTS_PLANS_ATTENTION_H
#define TESTS_PLANS_ATTENTION_H

#include "problems/attention_backward.h"
#include "plans.h"

/* A proof judges one call that attention_run() takes, on one device. */
typedef void plan_judge(const struct attention *call, const struct device_limits *device);

/*
 * Judges edge calls on every device, and RANDOM_SHAPES calls on the devices in turn. head_dim is a
 * multiple of `multiple`, up to 128. With `causal`, half of the calls are causal. Returns how many
 * were judged.
 */
int plan_attention_calls(plan_judge *judge, int multiple, bool causal);

/* plan_attention_calls() judges at least this many. */
enum { ATTENTION_CALLS = RANDOM_SHAPES + 10000 };

/*
 * The cost and the workspace of a row must not be negative or overflow, and those of an empty O
 * must be 0.
 */
void plan_attention_row(const struct attention_kernel *row, const struct attention *call);

/* Returns the backward pass of a call, and whether a kernel is asked for its gradients. */
struct attention_backward plan_backward_of(const struct attention *call);
bool plan_has_pairs(const struct attention *call);

/* The cost of a row's gradients, whose elements have so many bytes, must not be negative or
 * overflow, and have dK and dV once. */
void plan_backward_row(const struct attention_backward_kernel *row, const struct attention *call,
                       int element_bytes);

/* Returns the number of tiles of Br queries over all heads. */
long long plan_tiles(const struct attention *call, int Br);

#endif
