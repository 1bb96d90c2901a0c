/* These are launches: every way to write one, what kernels see of it, and what is refused. */
#include "features.h"
#include "device/clusters.cuh"

__global__ void write_indices(int *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    int width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
    out[(z * height + y) * width + x] += 1 + x + 100 * y + 10000 * z;
}

FEATURE(indices)
{
    const dim3 grid(3, 2, 2), block(5, 4, 3);
    const int X = 15, Y = 8, Z = 6;
    int *out = shared_array<int>(X * Y * Z);
    write_indices<<<grid, block>>>(out);
    return wrong_results(X * Y * Z, [&](int i) {
        return out[i] != 1 + i % X + 100 * (i / X % Y) + 10000 * (i / X / Y);
    });
}

template <int Add, int Times>
__global__ void arithmetic(int *out)
{
    out[threadIdx.x] = (static_cast<int>(threadIdx.x) + Add) * Times;
}

template <int Times>
static int run_nested(int *out)
{
    arithmetic<Times + 1, (Times > 2) ? 7 : 5><<<1, 32>>>(out);
    return wrong_results(32,
                         [&](int i) { return out[i] != (i + Times + 1) * (Times > 2 ? 7 : 5); });
}

FEATURE(templates)
{
    int *out = shared_array<int>(32);
    arithmetic<3, 4><<<dim3(1), /* the launch has several lines, */
                       32       // with comments
                       >>>(out);
    const int wrong = wrong_results(32, [&](int i) { return out[i] != (i + 3) * 4; });
    return wrong < 0 ? wrong : wrong + run_nested<2>(out) + run_nested<3>(out);
}

template <typename T>
__global__ void scale(T *data, T factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] *= factor;
}

template <int Threads, typename T>
__global__ void fill(T *data, T value)
{
    data[blockIdx.x * Threads + threadIdx.x] = value;
}

FEATURE(deduced_template)
{
    float *f = shared_array<float>(64);
    double *d = shared_array<double>(64);
    fill<32><<<2, 32>>>(f, 1.5f); /* the first argument is given, the second deduced */
    fill<32><<<2, 32>>>(d, 2.5);
    scale<<<2, 32>>>(f, 2.0f, 64);
    scale<double><<<2, 32>>>(d, 4, 64); /* 4 is converted: all arguments are given */
    return wrong_results(64, [&](int i) { return (f[i] != 3.0f) + (d[i] != 10.0); });
}

namespace deep
{
namespace down
{
__global__ void add(int *out, int value)
{
    atomicAdd(out, value);
}
} // namespace down
} // namespace deep

__global__ void add_one(int *out, int)
{
    atomicAdd(out, 1);
}

typedef void kernel_type(int *, int);
struct row {
    const char *name;
    kernel_type *run;
};

#define LAUNCH(kernel, ...) kernel<<<1, 1>>>(__VA_ARGS__)

FEATURE(launch_forms)
{
    int *out = shared_array<int>(1);
    const row table[] = {{"add_one", add_one}, {"add", deep::down::add}};
    kernel_type *pointer = add_one;
    const row *second = &table[1];
    deep::down::add<<<1, 1>>>(out, 10);
    ::deep::down::add<<<1, 1>>>(out, 100);
    pointer<<<1, 1>>>(out, 0);
    (*pointer)<<<1, 1>>>(out, 0);
    table[0].run<<<1, 1>>>(out, 0);
    second->run<<<1, 1, 0>>>(out, 1000);
    LAUNCH(add_one, out, 0);
    if (out)
        add_one<<<1, 1, 0, nullptr>>>(out, 0);
    return wrong_results([&] { return *out != 1115; });
}

FEATURE(launch_by_pointer)
{
    int *out = shared_array<int>(1), value = 7;
    void *arguments[] = {&out, &value};
    cudaLaunchKernel((const void *)deep::down::add, dim3(2), dim3(3), arguments, 0, nullptr);
    return wrong_results([&] { return *out != 42; });
}

struct parameters {
    float matrix[3][3];
    short tag;
};

__global__ void read_parameters(const __grid_constant__ parameters p, char c, double d,
                                const float *__restrict__ none, size_t big, float *out)
{
    out[0] = p.matrix[1][2] + p.tag;
    out[1] = static_cast<float>(c + d);
    out[2] = none == nullptr ? 1.0f : 0.0f;
    out[3] = big >> 32 == 5 ? 1.0f : 0.0f;
}

FEATURE(parameters)
{
    const float expected[4] = {25.0f, 3.5f, 1.0f, 1.0f};
    float *out = shared_array<float>(4);
    parameters p = {{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}, 20};
    read_parameters<<<1, 1>>>(p, 3, 0.5, NULL, (size_t)5 << 32,
                              out); /* NULL and an int convert, as in any call */
    return wrong_results(4, [&](int i) { return out[i] != expected[i]; });
}

/* The struct is copied to the device as bytes: its constructor and destructor run only on the
 * host. */
struct alignas(16) counted {
    int value;
    int *copies, *destroyed;

    __host__ counted(int value, int *counts) : value(value), copies(counts), destroyed(counts + 1)
    {
    }
    __host__ counted(const counted &from)
        : value(from.value), copies(from.copies), destroyed(from.destroyed)
    {
        ++*copies;
    }
    __host__ ~counted()
    {
        ++*destroyed;
    }
};

template <typename T>
__global__ void change_own_copy(char first, counted c, T *out, counted d)
{
    c.value += threadIdx.x + first;
    out[threadIdx.x] += c.value * d.value;
}

FEATURE(parameters_with_destructors)
{
    const int threads = 64;
    int *out = shared_array<int>(threads), counts[2] = {0, 0};
    {
        const counted c(100, counts), d(2, counts);
        change_own_copy<int><<<1, threads>>>(1, c, out, d);
        change_own_copy<<<1, threads>>>('\1', c, out, d);
    }
    return (counts[0] >= threads) + (counts[1] != counts[0] + 2) +
           wrong_results(threads, [&](int i) { return out[i] != (101 + i) * 2 * 2; });
}

/* The reference is to an object in managed memory: the kernel changes the caller's object. */
__global__ void change_callers(counted &c, const int &by)
{
    c.value += by;
}

FEATURE(parameters_by_reference)
{
    int *amount = shared_array<int>(4);
    counted *c = reinterpret_cast<counted *>(shared_array<char>(sizeof *c));
    amount[2] = 5;
    change_callers<<<1, 1>>>(*c, amount[2]);
    change_callers<<<1, 1>>>(*c, amount[2]);
    const int error = finished();
    return error + (c->value != 10);
}

/* A host function may have a kernel's name, even without parameters. */
__global__ void same_name(int *out)
{
    out[threadIdx.x] = int(threadIdx.x) + 7;
}

int same_name()
{
    int *out = shared_array<int>(32);
    same_name<<<1, 32>>>(out);
    return wrong_results(32, [&](int i) { return out[i] != i + 7; });
}

FEATURE(kernel_and_host_function_of_one_name)
{
    return same_name();
}

/* ---------------------------------------------------------------------------------------------- */
/* What is refused */

__global__ void __launch_bounds__(1024) idle()
{
}

cudaError_t launch_shape(dim3 grid, dim3 block, size_t dynamic_shared)
{
    idle<<<grid, block, dynamic_shared>>>();
    return cudaGetLastError();
}

cudaError_t allow_dynamic_shared(int bytes)
{
    return cudaFuncSetAttribute(idle, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

/* The kernel has 40 KB of static shared memory beside 16 KB of dynamic. */
__global__ void hold_shared(int *out)
{
    __shared__ int space[10240];
    space[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = space[31 - threadIdx.x];
}

__global__ void __launch_bounds__(2 * 32) bounded(int *data)
{
    data[threadIdx.x] = 1;
}

cudaError_t launch_bounded(int threads)
{
    bounded<<<1, threads>>>(shared_array<int>(threads));
    return finished();
}

cudaError_t launch_too_much_static_shared(void)
{
    hold_shared<<<1, 32, 16384>>>(shared_array<int>(32));
    return cudaGetLastError();
}

cudaError_t launch_cooperative(int blocks)
{
    return cudaLaunchCooperativeKernel((void *)idle, dim3(blocks), dim3(1024), nullptr, 0, nullptr);
}

cudaError_t launch_cluster(dim3 grid, dim3 cluster)
{
    const cudaError_t status = launch_in_clusters(cluster, grid, 32, 0, NULL, idle);
    cudaGetLastError();
    return status;
}

FEATURE(occupancy)
{
    int blocks = 0, smaller = 0, grid = 0, block = 0, processors = 0;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, idle, 1024, 0) ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&smaller, idle, 128, 0) ||
        cudaOccupancyMaxPotentialBlockSize(&grid, &block, idle) ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0))
        return call_failed();
    return (blocks < 1) + (smaller < blocks) + (block < 32 || block > 1024) + (grid < processors);
}
