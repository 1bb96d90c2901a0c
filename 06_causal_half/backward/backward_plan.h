/* The tiles of the gradients, and which queries a tile of keys meets. */
#ifndef HALF_BACKWARD_PLAN_H
#define HALF_BACKWARD_PLAN_H

#include "device/tiles.cuh"

#include <stdbool.h>

enum { BACKWARD_QUERIES = 64, BACKWARD_KEYS = 64 };

/* The tiles of queries begin here for a tile of keys that begins at key0: queries before do not see
 * it. */
static inline __host__ __device__ int backward_first_query(bool causal, int key0, int seq_q,
                                                           int seq_kv)
{
    const int sees = causal ? key0 - seq_kv + seq_q : 0; /* the first that sees key0 */
    return sees > 0 ? sees / BACKWARD_QUERIES * BACKWARD_QUERIES : 0;
}

#endif
