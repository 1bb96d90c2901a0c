/*
 * Kernel launches. simtcc rewrites
 *
 *     kernel<16><<<grid, block, shared, stream>>>(a, b)
 * to  simt::simt_kernel("kernel<16>", FIND, CALL, grid, block, shared, stream)(a, b)
 *
 * with two lambdas: FIND hands the kernel's address to whatever it is given, CALL calls the kernel
 * by its name, so that the compiler says in the author's line what is wrong with the arguments.
 * Names begin with simt_ because a macro around the launch may have any other.
 */
#pragma once

#include <cstring>
#include <cuda_runtime_api.h>
#include <simt/warp.h>
#include <type_traits>
#include <utility>

/* The compiled program hands this to the runtime. */
struct simt_launch {
    const char *kernel = "", *file = "";
    int line = 0;
    dim3 grid, block;
    size_t dynamic_shared;
    cudaStream_t stream;
    int cooperative = 0;
    dim3 cluster = {}; /* in blocks; 1 x 1 x 1 without clusters */
    /* It is null where template arguments are deduced: the kernel's address is not known. */
    const void *entry = nullptr;
    void (*invoke)(void *arguments) = nullptr;
    void *arguments = nullptr;
    size_t argument_bytes = 0;
};

extern "C" cudaError_t simt_run(const struct simt_launch *launch);

/* The program does not look at the error that a call returned. */
extern "C" void simt_not_looked_at(cudaError_t error, const char *call, const simt::Site *site);
/* Returns what a kernel gets for a pointer: one that leads nowhere for host memory. */
extern "C" void *simt_guard(const volatile void *pointer);

/* simtcc puts calls of this behind a file, for reports. `names` is "A,B,C,N". */
extern "C" void simt_name_parameters(const char *kernel, const char *names);

/* simtcc makes __launch_bounds__ this, the kernel's first statement. The first counts. */
extern "C" void simt_launch_bounds(unsigned threads, unsigned blocks = 0, unsigned cluster = 0);

namespace simt
{

/* simtcc puts this and a comma before a call that is a statement and may be one of the runtime's.
 */
struct NotLookedAt {
    const char *call;
    Site site;
};
inline NotLookedAt not_looked_at(const char *call, SIMT_CALL_SITE) { return {call, site}; }
/* Of a void function, a program's own, the comma is the language's. */
template <class Result> void operator,(const NotLookedAt &at, Result &&result)
{
    if constexpr (std::is_same_v<std::decay_t<Result>, cudaError_t>)
        if (result != cudaSuccess)
            simt_not_looked_at(result, at.call, &at.site);
}

template <class T> void guard(const T &) {}
template <class T> void guard(T *&pointer)
{
    if constexpr (!std::is_function_v<T>)
        pointer = static_cast<T *>(simt_guard(pointer));
}

/* A parameter with a constructor or destructor is copied as bytes: CUDA threads run neither. */
template <class T> struct Bytes {
    alignas(T) char bytes[sizeof(T)];

    Bytes(const T &value) { memcpy(bytes, &value, sizeof value); }
    operator T &() { return reinterpret_cast<T &>(bytes); }
};

/* For an object that a kernel takes by reference (in managed memory), this is the address. */
template <class T> struct Bytes<T &> {
    T *address;

    Bytes(T &object) : address(__builtin_addressof(object)) {}
    operator T &() { return *address; }
};

template <class T> inline constexpr bool trivial_for_calls =
    std::conjunction_v<std::is_trivially_copy_constructible<T>,
                       std::is_trivially_move_constructible<T>, std::is_trivially_destructible<T>>;

template <class T> using Stored =
    std::conditional_t<trivial_for_calls<T> && !std::is_reference_v<T>, T, Bytes<T>>;

/* An argument that is not trivial for calls is passed as the address of the caller's copy. This is
 * the Itanium C++ ABI's rule, which every compiler for Linux keeps. */
template <class T> using Passed = std::conditional_t<trivial_for_calls<T>, T, T &>;

template <size_t Position, class T> struct Argument {
    Stored<T> value;
};

/* Runs in every CUDA thread: calls the function with copies of the launch's arguments. They are
 * copied as constants, so that no constructor of theirs from something else is better. */
template <class Positions, class Function, class... Parameters> struct Invocation;

template <size_t... Positions, class Function, class... Parameters>
struct Invocation<std::index_sequence<Positions...>, Function, Parameters...>
    : Argument<Positions, Parameters>... {
    Function function;

    void guard() { (simt::guard(this->Argument<Positions, Parameters>::value), ...); }

    /* Reading the arguments is not an access by the kernel. */
    __attribute__((no_sanitize("thread"))) static void invoke(void *self)
    {
        Invocation &call = *static_cast<Invocation *>(self);
        call.function(static_cast<Passed<Parameters>>(
            Stored<Parameters>(std::as_const(call.Argument<Positions, Parameters>::value)))...);
    }
};

/* Runs a launch that lacks only the kernel and its arguments. */
template <class Function, class... Parameters> cudaError_t run(const simt_launch &configured,
                                                               const void *entry, Function function,
                                                               const Parameters &...arguments)
{
    simt_launch launch = configured;
    using Call = Invocation<std::index_sequence_for<Parameters...>, Function, Parameters...>;
    Call call = {{arguments}..., function};
    call.guard();
    launch.entry = entry;
    launch.invoke = call.invoke;
    launch.arguments = &call;
    launch.argument_bytes = sizeof call;
    return simt_run(&launch);
}

/* The function alone decides the parameters, to which the arguments are converted. */
template <class... Parameters>
cudaError_t run(const simt_launch &launch, void (*function)(Parameters...),
                const std::enable_if_t<true, Parameters> &...arguments)
{
    using Function = void (*)(Passed<Parameters>...);
    const auto entry = reinterpret_cast<void (*)()>(function);
    return run<Function, Parameters...>(launch, reinterpret_cast<const void *>(function),
                                        reinterpret_cast<Function>(entry), arguments...);
}

/* Where the name alone is no address, the arguments' types may choose one. Where they do not,
 * because they have to be converted, the kernel is called by its name. */
template <class Call, class Find> struct ConfiguredKernel {
    simt_launch launch;
    Call call;
    Find find;

    template <class... Arguments> void operator()(Arguments... arguments) const
    {
        static_assert(std::is_void_v<decltype(call(arguments...))>, "a kernel returns void");
        /* This chooses the overload, or the instance, with exactly these parameters. */
        constexpr auto address = [](void (*function)(Arguments...)) { return function; };
        if constexpr (std::is_invocable_v<Find, decltype(address)>)
            run(launch, find(address), arguments...);
        else
            run(launch, nullptr, call, arguments...);
    }
};

/* The arguments are converted to the kernel's parameter types as in any call. The kernel is called
 * by its name with fewer arguments, where parameters have defaults, which a pointer has forgotten,
 * and with arguments that it cannot take, so that the compiler complains. An integer may be the 0
 * that is a pointer; then this only says that there is no such call. */
template <class Call, class... Parameters> struct ConfiguredKernel<Call, void (*)(Parameters...)> {
    simt_launch launch;
    Call call;
    void (*function)(Parameters...);

    void operator()(Parameters... arguments) const { run(launch, function, arguments...); }

    template <class... Arguments> static constexpr bool may_fit()
    {
        if constexpr (sizeof...(Arguments) == sizeof...(Parameters))
            return ((std::is_convertible_v<Arguments, Parameters> ||
                     std::is_convertible_v<Arguments &, Parameters> ||
                     std::is_integral_v<Arguments>)&&...);
        return false;
    }

    template <class... Arguments, class = std::enable_if_t<!may_fit<Arguments...>()>>
    void operator()(Arguments... arguments) const
    {
        static_assert(std::is_void_v<decltype(call(arguments...))>);
        run(launch, reinterpret_cast<const void *>(function), call, arguments...);
    }
};

/* Says whether something that is not known as a __global__ function may stand before <<<: a pointer
 * or a reference to one, or what becomes a pointer. */
template <class T, class = void> inline constexpr bool simt_may_be_launched = false;
template <class T>
inline constexpr bool simt_may_be_launched<T, std::void_t<decltype(+std::declval<T>())>> =
    !std::is_function_v<T>;

template <class Find, class Call> auto simt_kernel(const char *name, Find find, Call call,
                                                   dim3 grid, dim3 block, size_t shared = 0,
                                                   cudaStream_t stream = nullptr, SIMT_CALL_SITE)
{
    const simt_launch launch = {name, site.file, site.line, grid, block, shared, stream};
    /* The name stands for exactly one function. (With the parameters' types for a template's
     * arguments the compiler would take the one without any.) */
    constexpr auto address = [](auto *function) { return function; };
    if constexpr (std::is_invocable_v<Find, decltype(address)>)
        return ConfiguredKernel<Call, decltype(find(address))>{launch, call, find(address)};
    else
        return ConfiguredKernel<Call, Find>{launch, call, find};
}

/* simtcc turns a launch inside a kernel or a __device__ function into this. */
template <class... T> SIMT_UNSUPPORTED("launches by a kernel (dynamic parallelism)")
void (*simt_kernel_in_device_code(T...))(...);

/* arguments[i] points to the i-th argument, as cudaLaunchKernel wants it. */
template <class... Parameters, size_t... Indices>
cudaError_t run_by_address(const simt_launch &launch, void (*function)(Parameters...),
                           [[maybe_unused]] void **arguments, std::index_sequence<Indices...>)
{
    return run(launch, function, *static_cast<Parameters *>(arguments[Indices])...);
}

} /* namespace simt */

#define SIMT_LAUNCH(name, cooperative)                                                             \
    template <class... Parameters>                                                                 \
    cudaError_t name(void (*kernel)(Parameters...), dim3 grid, dim3 block, void **arguments,       \
                     size_t shared = 0, cudaStream_t stream = nullptr)                             \
    {                                                                                              \
        return simt::run_by_address({"", "", 0, grid, block, shared, stream, cooperative}, kernel, \
                                    arguments, std::index_sequence_for<Parameters...>());          \
    }
SIMT_LAUNCH(cudaLaunchKernel, 0)
SIMT_LAUNCH(cudaLaunchCooperativeKernel, 1)
#undef SIMT_LAUNCH

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                               Arguments &&...arguments)
{
    simt_launch launch = {
        "", "", 0, config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream};
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute &attribute = config->attrs[i];
        if (attribute.id == cudaLaunchAttributeCooperative)
            launch.cooperative = attribute.val.cooperative;
        else if (attribute.id == cudaLaunchAttributeClusterDimension)
            launch.cluster = attribute.val.clusterDim;
    }
    return simt::run(launch, kernel, static_cast<Parameters>(arguments)...);
}
