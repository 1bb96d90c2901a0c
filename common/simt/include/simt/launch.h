/*
 * Kernel launches. simtcc rewrites
 *
 *     kernel<16><<<grid, block, shared, stream>>>(a, b)
 * to  simt::simt_kernel("kernel<16>", kernel<16>).simt_configure(grid, block, shared, stream)(a, b)
 *
 * and, where the template arguments are left to be deduced from the call, hands over a lambda that
 * makes the call. The names begin with simt_ because a macro around the launch may have a parameter
 * of any other name.
 */
#ifndef SIMT_LAUNCH_H
#define SIMT_LAUNCH_H

#include <cuda_runtime_api.h>
#include <tuple>
#include <type_traits>
#include <utility>

/* What the compiled program hands to the runtime. */
struct simt_launch {
    const char *kernel;
    /* null where the kernel's address is not known: deduced template arguments */
    const void *entry;
    void (*invoke)(void *arguments);
    void *arguments;
    size_t argument_bytes;
    dim3 grid, block;
    size_t dynamic_shared;
    cudaStream_t stream;
    int cooperative;
    dim3 cluster; /* in blocks; 1 x 1 x 1 without clusters */
    const char *file;
    int line;
};

extern "C" cudaError_t simt_run(const struct simt_launch *launch);

namespace simt
{

/* Runs in every CUDA thread: calls the function with copies of the launch's arguments. */
template <class F, class... P>
struct Invocation {
    F function;
    std::tuple<P...> arguments;

    __attribute__((no_sanitize("thread"))) static void invoke(void *self)
    {
        Invocation *invocation = static_cast<Invocation *>(self);
        std::apply(invocation->function, invocation->arguments);
    }
};

struct Configuration {
    const char *name;
    const char *file;
    int line;
    dim3 grid, block;
    size_t dynamic_shared;
    cudaStream_t stream;
    dim3 cluster;

    template <class F, class... P>
    cudaError_t run(const void *entry, F function, int cooperative, P... arguments) const
    {
        Invocation<F, P...> call = {function, std::tuple<P...>(arguments...)};
        struct simt_launch launch = {name,        entry,          Invocation<F, P...>::invoke,
                                     &call,       sizeof call,    grid,
                                     block,       dynamic_shared, stream,
                                     cooperative, cluster,        file,
                                     line};
        return simt_run(&launch);
    }
};

/* The arguments convert to the kernel's parameter types as in any call. */
template <class... P>
struct ConfiguredKernel : Configuration {
    void (*function)(P...);

    void operator()(P... arguments) const
    {
        this->run(reinterpret_cast<const void *>(function), function, 0, arguments...);
    }
};

template <class F>
struct ConfiguredLambda : Configuration {
    F function;

    template <class... A>
    void operator()(A... arguments) const
    {
        this->run(nullptr, function, 0, arguments...);
    }
};

template <class... P>
struct Kernel {
    const char *name;
    void (*function)(P...);
    const char *file;
    int line;

    ConfiguredKernel<P...> simt_configure(dim3 grid, dim3 block, size_t shared = 0,
                                          cudaStream_t stream = nullptr) const
    {
        return {{name, file, line, grid, block, shared, stream, dim3(1, 1, 1)}, function};
    }
};

template <class F>
struct Lambda {
    const char *name;
    F function;
    const char *file;
    int line;

    ConfiguredLambda<F> simt_configure(dim3 grid, dim3 block, size_t shared = 0,
                                       cudaStream_t stream = nullptr) const
    {
        return {{name, file, line, grid, block, shared, stream, dim3(1, 1, 1)}, function};
    }
};

template <class... P>
Kernel<P...> simt_kernel(const char *name, void (*function)(P...),
                         const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return {name, function, file, line};
}

template <class F>
Lambda<F> simt_deduced_kernel(const char *name, F function, const char *file = __builtin_FILE(),
                              int line = __builtin_LINE())
{
    return {name, function, file, line};
}

/* What simtcc makes of a launch inside a kernel or a __device__ function. */
template <class... T>
__attribute__((unavailable(
    "launching a kernel from device code (dynamic parallelism) is not supported by the CPU "
    "backend (simt)"))) Kernel<>
simt_kernel_in_device_code(T...);

/* arguments[i] points to the i-th argument, as cudaLaunchKernel wants it. */
template <class... P, size_t... I>
cudaError_t run_by_address(const char *name, void (*function)(P...), dim3 grid, dim3 block,
                           void **arguments, size_t shared, cudaStream_t stream, int cooperative,
                           std::index_sequence<I...>)
{
    (void)arguments;
    Configuration configuration = {name, "", 0, grid, block, shared, stream, dim3(1, 1, 1)};
    return configuration.run(reinterpret_cast<const void *>(function), function, cooperative,
                             *static_cast<std::remove_reference_t<P> *>(arguments[I])...);
}

} /* namespace simt */

template <class... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **arguments,
                             size_t shared = 0, cudaStream_t stream = nullptr)
{
    return simt::run_by_address("", kernel, grid, block, arguments, shared, stream, 0,
                                std::index_sequence_for<P...>());
}

template <class... P>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block,
                                        void **arguments, size_t shared = 0,
                                        cudaStream_t stream = nullptr)
{
    return simt::run_by_address("", kernel, grid, block, arguments, shared, stream, 1,
                                std::index_sequence_for<P...>());
}

template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                               A &&...arguments)
{
    int cooperative = 0;
    dim3 cluster(1, 1, 1);
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute &attribute = config->attrs[i];
        if (attribute.id == cudaLaunchAttributeCooperative)
            cooperative = attribute.val.cooperative;
        else if (attribute.id == cudaLaunchAttributeClusterDimension)
            cluster = dim3(attribute.val.clusterDim.x, attribute.val.clusterDim.y,
                           attribute.val.clusterDim.z);
    }
    simt::Configuration configuration = {
        "",     "", 0, config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream,
        cluster};
    return configuration.run<void (*)(P...), P...>(reinterpret_cast<const void *>(kernel), kernel,
                                                   cooperative, static_cast<P>(arguments)...);
}

#endif
