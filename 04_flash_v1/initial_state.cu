/*
 * What an online softmax begins with, nothing seen: O = 0, l = 0, m = -inf, LSE = m + ln l = -inf.
 *
 * A byte fill could write the zeros but not the -inf: cudaMemset(m, -INFINITY, n) fills bytes.
 */
#include "04_step.h"

#include <math_constants.h>

static const int THREADS = 256;

__global__ void initial_state(float *O, float *LSE, float *l, float *m, size_t rows, int head_dim)
{
    const size_t element = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (element < rows * head_dim)
        O[element] = 0.0f;
    if (element < rows) {
        l[element] = 0.0f;
        m[element] = -CUDART_INF_F;
        if (LSE != NULL)
            LSE[element] = -CUDART_INF_F;
    }
}

extern "C" cudaError_t attention_initial_state(const struct attention *call)
{
    const size_t rows = attention_query_rows(call);
    const size_t elements = rows * call->head_dim; /* fewer than 2^31 rows of 128: so are blocks */
    float *l = (float *)call->workspace, *m = l + rows;
    initial_state<<<(unsigned)(elements / THREADS + 1), THREADS, 0, call->stream>>>(
        (float *)call->O, call->LSE, l, m, rows, call->head_dim);
    return cudaGetLastError();
}
