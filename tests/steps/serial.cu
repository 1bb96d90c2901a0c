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

static const int QUERIES = 64, MOST = 128;

/* Keys pass by a tile of queries, whose states are local. */
template <typename T>
static __global__ void attend(const struct attention call)
{
    const int d = call.head_dim, shift = call.seq_kv - call.seq_q;
    float q[QUERIES][MOST], o[QUERIES][MOST], m[QUERIES], l[QUERIES], k[MOST], v[MOST];
    for (int head = 0; head < call.batch * call.heads; head++) {
        const int kv =
            head / call.heads * call.kv_heads + head % call.heads / (call.heads / call.kv_heads);
        const T *K = (const T *)call.K + (size_t)kv * call.seq_kv * d;
        const T *V = (const T *)call.V + (size_t)kv * call.seq_kv * d;
        for (int first = 0; first < call.seq_q; first += QUERIES) {
            const int rows = min(QUERIES, call.seq_q - first);
            const size_t row = (size_t)head * call.seq_q + first;
            for (int i = 0; i < rows; i++) {
                m[i] = -CUDART_INF_F;
                l[i] = 0.0f;
                for (int c = 0; c < d; c++) {
                    q[i][c] = call.scale * number(((const T *)call.Q)[(row + i) * d + c]);
                    o[i][c] = 0.0f;
                }
            }
            const int keys = call.causal ? min(call.seq_kv, first + rows + shift) : call.seq_kv;
            for (int j = 0; j < keys; j++) {
                for (int c = 0; c < d; c++) {
                    k[c] = number(K[(size_t)j * d + c]);
                    v[c] = number(V[(size_t)j * d + c]);
                }
                for (int i = call.causal ? max(0, j - shift - first) : 0; i < rows; i++) {
                    float score = 0.0f;
                    for (int c = 0; c < d; c++)
                        score += q[i][c] * k[c];
                    const float top = fmaxf(m[i], score);
                    const float rescale = expf(m[i] - top), p = expf(score - top);
                    m[i] = top;
                    l[i] = l[i] * rescale + p;
                    for (int c = 0; c < d; c++)
                        o[i][c] = o[i][c] * rescale + p * v[c];
                }
            }
            for (int i = 0; i < rows; i++) {
                for (int c = 0; c < d; c++)
                    ((T *)call.O)[(row + i) * d + c] = (T)(l[i] > 0.0f ? o[i][c] / l[i] : 0.0f);
                if (call.LSE != NULL)
                    call.LSE[row + i] = m[i] + logf(l[i]);
            }
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
