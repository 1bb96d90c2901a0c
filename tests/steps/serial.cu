/*
 * One thread does everything, and keeps what it can in local arrays, so that it loads each input
 * once. No rung's claim may be kept by such a kernel.
 */
#include "device/warp.cuh"
#include "problems/attention.h"
#include "problems/matmul.h"
#include "problems/softmax.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>

static const int KEPT = 8192; /* elements of a local array */

template <typename T>
static __device__ float number(T x)
{
    return (float)x;
}

/* Loads what fits, and reads the rest again each time. */
template <typename T>
struct Local {
    const T *from;
    size_t kept;
    T here[KEPT];
    __device__ void load(const T *array, size_t count)
    {
        from = array;
        kept = count < KEPT ? count : KEPT;
        for (size_t i = 0; i < kept; i++)
            here[i] = array[i];
    }
    __device__ float at(size_t i) const
    {
        return number(i < kept ? here[i] : from[i]);
    }
};

static __global__ void multiply(const float *A, const float *B, float *C, int M, int N, int K)
{
    Local<float> a, b;
    a.load(A, (size_t)M * K);
    b.load(B, (size_t)K * N);
    for (int row = 0; row < M; row++)
        for (int col = 0; col < N; col++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++)
                sum += a.at((size_t)row * K + k) * b.at((size_t)k * N + col);
            C[(size_t)row * N + col] = sum;
        }
}

extern "C" cudaError_t matmul_serial(const float *A, const float *B, float *C, int M, int N, int K,
                                     cudaStream_t stream)
{
    multiply<<<1, 1, 0, stream>>>(A, B, C, M, N, K);
    return cudaGetLastError();
}

static __global__ void normalise(const float *input, float *output, int rows, int cols)
{
    Local<float> x;
    for (int row = 0; row < rows; row++) {
        float m = -CUDART_INF_F, l = 0.0f;
        x.load(input + (size_t)row * cols, cols);
        for (int col = 0; col < cols; col++)
            m = fmaxf(m, x.at(col));
        for (int col = 0; col < cols; col++)
            l += expf(x.at(col) - m);
        for (int col = 0; col < cols; col++)
            output[(size_t)row * cols + col] = expf(x.at(col) - m) / l;
    }
}

extern "C" cudaError_t softmax_serial(const float *input, float *output, int rows, int cols,
                                      cudaStream_t stream)
{
    normalise<<<1, 1, 0, stream>>>(input, output, rows, cols);
    return cudaGetLastError();
}

/* K and V of a head are loaded once for all its queries. */
template <typename T>
static __global__ void attend(const struct attention call)
{
    const size_t d = call.head_dim, keys = call.seq_kv;
    Local<T> k, v;
    float score[4096], o[128];
    for (int head = 0; head < call.batch * call.heads; head++) {
        const size_t kv = (size_t)head / call.heads * call.kv_heads +
                          head % call.heads / (call.heads / call.kv_heads);
        k.load((const T *)call.K + kv * keys * d, keys * d);
        v.load((const T *)call.V + kv * keys * d, keys * d);
        for (int query = 0; query < call.seq_q; query++) {
            const size_t row = (size_t)head * call.seq_q + query;
            const T *q = (const T *)call.Q + row * d;
            const long long last =
                call.causal ? (long long)query + call.seq_kv - call.seq_q : (long long)keys - 1;
            float m = -CUDART_INF_F, l = 0.0f;
            for (long long j = 0; j <= last; j++) {
                score[j] = 0.0f;
                for (size_t i = 0; i < d; i++)
                    score[j] += number(q[i]) * k.at(j * d + i);
                score[j] *= call.scale;
                m = fmaxf(m, score[j]);
            }
            for (size_t i = 0; i < d; i++)
                o[i] = 0.0f;
            for (long long j = 0; j <= last; j++) {
                const float p = expf(score[j] - m);
                l += p;
                for (size_t i = 0; i < d; i++)
                    o[i] += p * v.at(j * d + i);
            }
            for (size_t i = 0; i < d; i++)
                ((T *)call.O)[row * d + i] = (T)(l > 0.0f ? o[i] / l : 0.0f);
            if (call.LSE != NULL)
                call.LSE[row] = m + logf(l);
        }
    }
}

extern "C" cudaError_t attention_serial(const struct attention *call)
{
    if (call->type == TENSOR_F32)
        attend<float><<<1, 1, 0, call->stream>>>(*call);
    else if (call->type == TENSOR_F16)
        attend<__half><<<1, 1, 0, call->stream>>>(*call);
    else
        attend<__nv_bfloat16><<<1, 1, 0, call->stream>>>(*call);
    return cudaGetLastError();
}
