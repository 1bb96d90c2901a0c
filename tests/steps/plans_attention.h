/* Calls of attention for the proofs of plans of steps 04, 05 and 06. */
#ifndef TESTS_PLANS_ATTENTION_H
#define TESTS_PLANS_ATTENTION_H

#include "problems/attention.h"
#include "plans.h"

/* What a proof does with one call that attention_run() takes, on one device. */
typedef void plan_judge(const struct attention *call, const struct device_limits *device);

/*
 * Judges edge calls on every device, and RANDOM_SHAPES calls on the devices in turn: head_dim is a
 * multiple of `multiple` up to 128, and half of the calls are causal where that is asked for.
 * Returns how many were judged.
 */
int plan_attention_calls(plan_judge *judge, int multiple, bool causal);

/* What plan_attention_calls() judges at least. */
enum { ATTENTION_CALLS = RANDOM_SHAPES + 10000 };

/*
 * The cost and the workspace of a row are neither negative nor beyond their types, and those of an
 * empty O are 0.
 */
void plan_attention_row(const struct attention_kernel *row, const struct attention *call);

/* Tiles of Br queries over all heads. */
long long plan_tiles(const struct attention *call, int Br);

#endif
