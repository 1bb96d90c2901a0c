/* The tiles of the gradients, and which queries a tile of keys meets. */
#ifndef HALF_BACKWARD_PLAN_H
#define HALF_BACKWARD_PLAN_H

#include "device/tiles.cuh"

#include <stdbool.h>

enum { BACKWARD_QUERIES = 64, BACKWARD_KEYS = 64 };

/* Of backward_wgmma. Scores of a tile lie in registers, so wide rows leave room for fewer. */
enum { BACKWARD_WGMMA_KEYS = 128 };
#define BACKWARD_WGMMA_QUERIES(HEAD_DIM) ((HEAD_DIM) <= 64 ? 128 : 64)

/* The tiles of Br queries begin here for a tile of keys that begins at key0: queries before do not
 * see it. */
static inline __host__ __device__ int backward_first_query(bool causal, int key0, int seq_q,
                                                           int seq_kv, int Br)
{
    const int sees = causal ? key0 - seq_kv + seq_q : 0; /* the first that sees key0 */
    return sees > 0 ? sees / Br * Br : 0;
}

#endif
