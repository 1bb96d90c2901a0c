/*
 * One thread does everything, and keeps what it can in local arrays, so that it loads each input
 * once. No rung's claim may be kept by such a kernel.
 */
#include "device/warp.cuh"
#include "problems/attention.h"
#include "problems/attention_backward.h"
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

static const int KEYS = 32;

/* Queries pass by a tile of keys, whose gradients are local; a query's wait in memory between two
 * tiles. */
template <typename T>
static __global__ void go_back(const struct attention_backward call)
{
    const int d = call.head_dim, shift = call.seq_kv - call.seq_q;
    const int queries = call.heads / call.kv_heads * call.seq_q;
    float k[KEYS][MOST], v[KEYS][MOST], dk[KEYS][MOST], dv[KEYS][MOST];
    float q[MOST], dO[MOST], dq[MOST];
    for (int tile = 0; tile < call.batch * call.kv_heads * call.seq_kv; tile += KEYS) {
        const int first = tile % call.seq_kv, keys = min(KEYS, call.seq_kv - first);
        for (int j = 0; j < keys; j++)
            for (int c = 0; c < d; c++) {
                k[j][c] = number(((const T *)call.K)[(size_t)(tile + j) * d + c]);
                v[j][c] = number(((const T *)call.V)[(size_t)(tile + j) * d + c]);
                dk[j][c] = dv[j][c] = 0.0f;
            }
        for (int i = 0; i < queries; i++) {
            const size_t row = (size_t)(tile / call.seq_kv) * queries + i;
            float D = 0.0f;
            for (int c = 0; c < d; c++) {
                q[c] = number(((const T *)call.Q)[row * d + c]);
                dO[c] = number(((const T *)call.dO)[row * d + c]);
                D += dO[c] * number(((const T *)call.O)[row * d + c]);
                dq[c] = first > 0 ? number(((const T *)call.dQ)[row * d + c]) : 0.0f;
            }
            const float LSE = call.LSE[row];
            const int end = call.causal ? i % call.seq_q + shift + 1 - first : keys;
            for (int j = 0; j < min(keys, end); j++) {
                float S = 0.0f, dP = 0.0f;
                for (int c = 0; c < d; c++) {
                    S += q[c] * k[j][c];
                    dP += dO[c] * v[j][c];
                }
                const float P = LSE == -CUDART_INF_F ? 0.0f : expf(call.scale * S - LSE);
                const float dS = call.scale * P * (dP - D);
                for (int c = 0; c < d; c++) {
                    dq[c] += dS * k[j][c];
                    dk[j][c] += dS * q[c];
                    dv[j][c] += P * dO[c];
                }
            }
            for (int c = 0; c < d; c++)
                ((T *)call.dQ)[row * d + c] = (T)dq[c];
        }
        for (int j = 0; j < keys; j++)
            for (int c = 0; c < d; c++) {
                ((T *)call.dK)[(size_t)(tile + j) * d + c] = (T)dk[j][c];
                ((T *)call.dV)[(size_t)(tile + j) * d + c] = (T)dv[j][c];
            }
        tile -= KEYS - keys; /* the next one begins where this one ended */
    }
}

extern "C" cudaError_t attention_backward_serial(const struct attention_backward *call)
{
    if (call->type == TENSOR_F32)
        go_back<float><<<1, 1, 0, call->stream>>>(*call);
    else if (call->type == TENSOR_F16)
        go_back<__half><<<1, 1, 0, call->stream>>>(*call);
    else
        go_back<__nv_bfloat16><<<1, 1, 0, call->stream>>>(*call);
    return cudaGetLastError();
}
