/* Which keys a query sees, in plain C: kernels and costs share it. */
#ifndef VISIBLE_H
#define VISIBLE_H

#include "device/tiles.cuh"

#include <stdbool.h>

/* Query `row` sees the first so many keys. Rows past seq_q, which fill the last tile, see all. */
static inline __host__ __device__ int keys_seen(bool causal, int row, int seq_q, int seq_kv)
{
    if (!causal)
        return seq_kv;
    const int seen = row - seq_q + 1 + seq_kv, there = seen < seq_kv ? seen : seq_kv;
    return there > 0 ? there : 0;
}

#endif
