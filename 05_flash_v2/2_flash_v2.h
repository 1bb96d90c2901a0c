/* What kernels that pass over the queries tile by tile cost, as FlashAttention-2 does. */
#ifndef FLASH_V2_H
#define FLASH_V2_H

#include "device/tiles.cuh"
#include "problems/attention.h"

/* Q, O and LSE once, K and V once for each tile of Br queries; V is loaded, and O stored, so many
 * floats at a time. */
static inline struct cost tiles_of_queries_cost(const struct attention *call, int Br, int width_V,
                                                int width_O)
{
    const long long heads = (long long)call->batch * call->heads, d = call->head_dim;
    const long long queries = heads * call->seq_q;
    const long long keys = heads * ceil_div(call->seq_q, Br) * call->seq_kv;
    return (struct cost){queries * d + keys * (d + d / width_V), queries * (d / width_O + 1),
                         sizeof(float) * (queries * d + keys * 2 * d),
                         sizeof(float) * queries * (d + 1)};
}

static inline struct cost flash_v2_cost(const struct attention_kernel *row,
                                        const struct attention *call)
{
    return tiles_of_queries_cost(call, row->Br[call->head_dim > 64], 1, 1);
}

static inline int width(const struct attention *call)
{
    return call->head_dim % 4 == 0 ? 4 : 1;
}

#endif
