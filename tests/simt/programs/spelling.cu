// Launches, shared memory and kernels can be spelled in many ways.
#include <iostream>
#include <vector>
#include <string>
#include <map>
#include <utility>
#include "spelling.cuh"
#include <cstdlib>

// A program's own functions may begin as CUDA's do, and return nothing.
static void cudaCheck(cudaError_t error)
{
    if (error != cudaSuccess)
        exit(1);
}
template <class A, class B>
struct Foo {
    A a;
    B b;
};
template <class T, int N>
__global__ void nested(int *p)
{
    p[0] = sizeof(T) + N;
}
template <int N>
__global__ void pick(int *p)
{
    *p = N;
}
template <>
__global__ void pick<9>(int *p)
{
    *p = 900;
}
// The string looks like a preprocessor's output.
static const char *const script = R"(
# 1 "forged.cu"
)";
__global__ void(enclosed)(int *p)
{
    *p = 32;
}
template <int N>
__global__ std::enable_if_t<bool{(N > 0)}> positive(int *p)
{
    *p = N;
}
struct Digits {
    int n;
};
struct Number {
    int n;
    Number(Digits &&digits) : n(digits.n)
    {
    }
};
__global__ void take(int *p, Number number)
{
    *p = number.n;
}
template <class F>
__global__ void apply(int n, F f, int *p)
{
    int i = threadIdx.x;
    if (i < n)
        p[i] = f(i);
}
extern "C" __global__ void __launch_bounds__(64, 2) cstyle(int *p, const int n)
{
    *p = n;
}
static __global__ void hidden(int *p)
{
    *p = 3;
}
struct Adder {
    int k;
    __host__ __device__ int operator()(int x) const
    {
        return x + k;
    }
};
#define LAUNCH_ALL(k, g, b, ...)                                                                   \
    do {                                                                                           \
        k<<<g, b>>>(__VA_ARGS__);                                                                  \
        if (cudaGetLastError())                                                                    \
            exit(1);                                                                               \
    } while (0)
#define STR(x) #x
#ifndef cudaEventDisableTiming
#error "a macro, in CUDA"
#endif
#ifdef NOT_DEFINED
if (broken {
#else
#endif
    __device__ __noinline__ int slow(int x)
    {
        return x * 2;
    }
    __global__ void useslow(int *p)
    {
        p[0] = slow(21);
        asm volatile("" ::: "memory"); // no instruction
        __shared__ float a[8], b[8];
        a[threadIdx.x] = 1;
        b[threadIdx.x] = 2;
        p[1] = a[0] + b[0];
    }
    __device__ __constant__ int dc = 4;
    static __constant__ int sc[2] = {5, 6};
    __device__ const int cc = 7;
    __global__ void consts(int *p)
    {
        *p = dc + sc[1] + cc;
    }
    template <class T>
    __device__ T *smem()
    {
        extern __shared__ __align__(16) unsigned char my_smem[];
        return reinterpret_cast<T *>(my_smem);
    }
    template <class T>
    __global__ void tsm(T * p)
    {
        T *s = smem<T>();
        s[threadIdx.x] = threadIdx.x;
        __syncthreads();
        p[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
    }
    __global__ void vol(int *p)
    {
        extern volatile __shared__ int vs[];
        vs[threadIdx.x] = 1;
        __syncthreads();
        p[threadIdx.x] = vs[threadIdx.x ^ 1];
    }
    namespace a
    {
    namespace b
    {
    template <class T>
    __global__ void q(T *p)
    {
        *p = 8;
    }
    } // namespace b
    } // namespace a
    int check(int *p, int want, const char *what)
    {
        cudaError_t e = cudaDeviceSynchronize();
        if (e || *p != want) {
            printf("%s: %d want %d %s\n", what, *p, want, cudaGetErrorString(e));
            return 1;
        }
        return 0;
    }
    int main()
    {
        int *p, bad = 0;
        cudaCheck(cudaMallocManaged(&p, 4096));
        const char *s = "a <<< b >>> (c)";
        std::string r = R"(k<<<1,1>>>("x"))";
        (void)s;
        std::vector<std::vector<std::vector<int>>> v(3);
        std::map<int, std::vector<Foo<int, float>>> m;
        nested<Foo<int, Foo<char, double>>, 3><<<1, 1>>>(p);
        bad += check(p, sizeof(Foo<int, Foo<char, double>>) + 3, "nested");
        pick<(4 > 3 ? 5 : 6)><<<1, 1>>>(p);
        bad += check(p, 5, "paren");
        pick<9><<<1, 1>>>(p);
        bad += check(p, 900, "spec");
        pick<1 << 3><<<dim3(1), 1>>>(p);
        bad += check(p, 8, "shift");
        int base = 10;
        apply<<<1, 32>>>(
            32, [=] __device__(int i) { return i + base; }, p);
        bad += check(p, 10, "lambda");
        apply<<<1, 32>>>(32, Adder{20}, p);
        bad += check(p, 20, "functor");
        enclosed<<<1, 1>>>(p);
        bad += check(p, script ? 32 : 0, "enclosed");
        positive<33><<<1, 1>>>(p);
        bad += check(p, 33, "positive");
        take<<<1, 1>>>(p, Digits{34});
        bad += check(p, 34, "rvalue");
        static_cast<void (*)(int *)>(pick<35>)<<<1, 1>>>(p);
        bad += check(p, 35, "cast");
        cstyle<<<1, 1>>>(p, 6);
        bad += check(p, 6, "cstyle");
        hidden<<<1, 1>>>(p);
        bad += check(p, 3, "hidden");
        LAUNCH_ALL(cstyle, 1, dim3(1, 1), p, 12);
        bad += check(p, 12, "macro");
        auto kern = pick<7>;
        kern<<<1, 1>>>(p);
        bad += check(p, 7, "auto");
        useslow<<<1, 1>>>(p);
        bad += check(p, 42, "slow");
        consts<<<1, 1, 0, cudaStreamDefault>>>(p);
        bad += check(p, 17, "consts");
        tsm<int><<<1, 64, 64 * sizeof(int)>>>(p);
        bad += check(p, 63, "tsm");
        tsm<<<1, 64, 64 * sizeof(int)>>>(p);
        bad += check(p, 63, "tsm2");
        vol<<<1, 64, 1024>>>(p);
        bad += check(p, 1, "vol");
        a::b::q<<<1, 1>>>(p);
        bad += check(p, 8, "ns");
        launch_from_header(p, 55);
        bad += check(p, 55, "header");
        if (bad == 0)
            cstyle<<<1, 1>>>(p, 1);
        else
            cstyle<<<1, 1>>>(p, 2);
        bad += check(p, 1, "else");
        auto go = [&](int n) {
            cstyle<<<1, 1>>>(p, n);
            return cudaGetLastError();
        };
        go(31);
        bad += check(p, 31, "host lambda");
        for (int i = 0; i < 2; ++i)
            (i ? hidden : hidden)<<<1, 1>>>(p);
        (cstyle<<<1, 1>>>(p, 13), 0);
        bad += check(p, 13, "comma");
        cudaFuncSetAttribute(pick<7>, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024);
        pick<7><<<1, 1, 100 * 1024>>>(p);
        bad += check(p, 7, "attr");
        std::cout << r << " " << STR(a<<<b>>> c) << (bad ? " FAILED" : " ok") << std::endl;
        return bad;
    }
