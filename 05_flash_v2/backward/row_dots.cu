/*
 * What every kernel of this ladder begins with: D = rowsum(dO∘O), one number per query. A warp has
 * a row of both, and D goes to the workspace.
 */
#include "05_flash_v2/05_step.h"
#include "device/tiles.cuh"
#include "device/warp.cuh"

static const int THREADS = 256;
static const int WARPS = THREADS / WARP;

__global__ void row_dots(const float *dO, const float *O, float *D, int d, int rows)
{
    const int row = blockIdx.x * WARPS + threadIdx.x / WARP;
    if (row >= rows) /* the whole warp leaves */
        return;
    float sum = 0.0f;
    for (int c = threadIdx.x % WARP; c < d; c += WARP)
        sum += dO[(size_t)row * d + c] * O[(size_t)row * d + c];
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0)
        D[row] = sum;
}

extern "C" cudaError_t attention_backward_row_dots(const struct attention_backward *call, float *D)
{
    const int rows = (int)attention_backward_query_rows(call);
    row_dots<<<ceil_div(rows, WARPS), THREADS, 0, call->stream>>>(
        (const float *)call->dO, (const float *)call->O, D, call->head_dim, rows);
    return cudaGetLastError();
}
