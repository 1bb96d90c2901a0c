/* A launch's arguments are checked as CUDA does, then OS threads share its blocks. A launch is over
 * when simt_run returns; a kernel's error shows at the next call that waits for the device. */
#include "run/engine.h"
#include "host/errors.h"
#include "host/memory.h"
#include <deque>
#include <functional>
#include <map>
#include <memory>

using namespace simt;

/* Only one launch runs at a time, whichever host thread or stream it comes from. */
static std::mutex launching;

static bool within(const dim3 &size, const dim3 &most)
{
    return size.x >= 1 && size.y >= 1 && size.z >= 1 && size.x <= most.x && size.y <= most.y &&
           size.z <= most.z;
}

static unsigned long long resident_limit(const Launch &launch)
{
    return 1ull * unsigned(multiprocessors_of_device()) *
           unsigned(resident_blocks(launch.entry, launch.threads, launch.dynamic_shared));
}

static cudaError_t check_launch(const Launch &launch)
{
    const char *name = kernel_name(launch);
    const dim3 &block = launch.block, &cluster = launch.cluster, &grid = launch.grid;
    const struct {
        const char *what, *of;
        dim3 size, most;
    } shapes[] = {{"grid", "blocks", grid, dim3(2147483647, 65535, 65535)},
                  {"block", "threads", block, dim3(1024, 1024, 64)}};
    for (const auto &[what, of, size, most] : shapes)
        if (!within(size, most))
            return refuse(
                cudaErrorInvalidConfiguration,
                "kernel %s: a %s of %u x %u x %u %s; each size must be at least 1 and at most %u, "
                "%u and %u",
                name, what, size.x, size.y, size.z, of, most.x, most.y, most.z);
    if (launch.threads > max_block_threads)
        return refuse(cudaErrorInvalidConfiguration,
                      "kernel %s: a block of %u x %u x %u = %u threads; a block has at most %u",
                      name, block.x, block.y, block.z, launch.threads, max_block_threads);

    const int architecture = architecture_of_device(); /* the launch itself reports a bad value */
    if (!within(cluster, dim3(max_cluster_blocks, max_cluster_blocks, max_cluster_blocks)) ||
        launch.cluster_blocks > max_cluster_blocks)
        return refuse(
            cudaErrorInvalidClusterSize,
            "kernel %s: a cluster of %u x %u x %u blocks; it has at least 1 and at most %u", name,
            cluster.x, cluster.y, cluster.z, max_cluster_blocks);
    if (grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)
        return refuse(cudaErrorInvalidClusterSize,
                      "kernel %s: a grid of %u x %u x %u blocks, which is not a multiple of the "
                      "cluster's %u x %u x %u",
                      name, grid.x, grid.y, grid.z, cluster.x, cluster.y, cluster.z);
    if (launch.cluster_blocks > 1 && architecture < 90)
        return refuse(cudaErrorNotSupported,
                      "kernel %s: clusters need sm_90 (this device is sm_%d)", name, architecture);
    if (launch.cluster_blocks > 1 && launch.cooperative)
        return refuse(cudaErrorNotSupported,
                      "kernel %s: the CPU backend has no cooperative launches with clusters", name);

    const size_t fixed = static_shared_bytes(launch.entry);
    const size_t limit = dynamic_shared_limit(launch.entry);
    if (fixed > default_dynamic_shared)
        return refuse(cudaErrorInvalidValue,
                      "kernel %s: %zu bytes of static shared memory; a kernel has at most %zu "
                      "(more only as extern __shared__, after cudaFuncSetAttribute)",
                      name, fixed, default_dynamic_shared);
    if (launch.dynamic_shared > limit)
        return refuse(cudaErrorInvalidValue,
                      "kernel %s: %zu bytes of dynamic shared memory beside %zu of static; it may "
                      "have %zu (up to %zu after cudaFuncSetAttribute with "
                      "cudaFuncAttributeMaxDynamicSharedMemorySize)",
                      name, launch.dynamic_shared, fixed, limit,
                      shared_memory().per_block_optin - fixed);
    if (launch.cooperative && launch.blocks > resident_limit(launch))
        return refuse(cudaErrorCooperativeLaunchTooLarge,
                      "kernel %s: a cooperative launch of %llu blocks; at most %llu of them are "
                      "resident together",
                      name, launch.blocks, resident_limit(launch));
    return cudaSuccess;
}

static void begin(Launch &launch)
{
    catch_faults(fail_kernel);
    checker->launch_begin(launch);
}

static cudaError_t end(Launch &launch)
{
    checker->launch_end(launch);
    if (launch.error)
        kernel_failed(launch.error, launch.report);
    if (launch.allowed_threads)
        return refuse(cudaErrorInvalidValue,
                      "kernel %s: a block of %u threads; its __launch_bounds__ allows %u",
                      kernel_name(launch), launch.threads, launch.allowed_threads.load());
    return cudaSuccess;
}

/* ---- Streams that overlap (SIMT_ORDER=overlap) ---- */

/* Streams have yet to do this. Each function does a part, and returns true at its last. */
static std::map<cudaStream_t, std::deque<std::function<bool()>>> waiting;
static uint64_t seed_of_waiting;

/* Runs one block, or one cluster, of a launch. */
static bool run_a_little(Launch &launch)
{
    if (launch.next_block == 0 && a_kernel_failed())
        return true;
    if (launch.next_block == 0)
        begin(launch);
    launch.stop_at = launch.cooperative ? launch.blocks : launch.next_block + launch.cluster_blocks;
    const bool refused = run_on_workers(launch, 1, resident_limit(launch), false) != cudaSuccess;
    if (!refused && !launch.failed && launch.next_block < launch.blocks)
        return false;
    end(launch);
    return true;
}

/* Any call that waits for one stream waits for all. */
static void run_all_waiting()
{
    std::lock_guard<std::mutex> lock(launching);
    if (waiting.empty() || current_thread)
        return;
    OpenDeviceMemory open;
    while (!waiting.empty()) {
        const auto drawn = long(scramble(seed_of_waiting++) % waiting.size());
        auto chosen = std::next(waiting.begin(), drawn);
        if (!chosen->second.front()())
            continue;
        chosen->second.pop_front();
        if (chosen->second.empty())
            waiting.erase(chosen);
    }
}

static void wait_on(cudaStream_t stream, uint64_t seed, std::function<bool()> go_on)
{
    waiting[stream].push_back(std::move(go_on));
    seed_of_waiting = seed;
    run_waiting_launches = run_all_waiting;
}

static bool wait_to_fill(void *pointer, int value, size_t bytes, cudaStream_t stream)
{
    const Order order = read_order();
    if (order.kind != Order::overlap)
        return false;
    std::lock_guard<std::mutex> lock(launching);
    wait_on(stream, order.seed, [=] {
        if (!a_kernel_failed()) {
            memset(pointer, value, bytes);
            checker->written(pointer, bytes);
        }
        return true;
    });
    return true;
}

[[maybe_unused]] static const bool fills_wait = (put_off_fill = wait_to_fill, true);

/* Launches on streams of their own wait until something asks for results. Arguments are copied. */
static bool put_off(const std::shared_ptr<Launch> &launch)
{
    if (launch->order.kind != Order::overlap || !is_own(launch->stream))
        return false;
    /* This is as aligned as any kernel's arguments: a CUtensorMap lies at a multiple of 64. */
    struct alignas(64) ArgumentBytes {
        char bytes[64];
    };
    const auto copied = std::make_shared<std::vector<ArgumentBytes>>(
        launch->argument_bytes / sizeof(ArgumentBytes) + 1);
    memcpy(copied->data(), launch->arguments, launch->argument_bytes);
    launch->arguments = copied->data();
    wait_on(launch->stream, launch->order.seed, [launch, copied, device = current_device()] {
        const OnDevice on(device);
        return run_a_little(*launch);
    });
    return true;
}

static cudaError_t launch_kernel(const struct simt_launch *asked)
{
    static unsigned long long launches;
    if (current_thread)
        simt_fail(
            "a kernel launches kernel %s; dynamic parallelism is not supported by the CPU backend",
            asked->kernel);
    if (cudaError_t error = standing_error_without_waiting())
        return error;
    begin_launch();
    const auto shared = std::make_shared<Launch>(*asked);
    Launch &launch = *shared;
    if (cudaError_t error = check_launch(launch))
        return error;
    if (!is_own(launch.stream))
        run_waiting_launches();
    std::string complaint;
    const Environment environment = read_environment(&complaint);
    if (!complaint.empty())
        return refuse(cudaErrorInvalidValue, "%s", complaint.c_str());
    std::lock_guard<std::mutex> lock(launching);
    launch.number = ++launches;
    if (cudaError_t error = fail_if_injected(format("kernel %s", kernel_name(launch)).c_str()))
        return error;
    launch.order = environment.order;
    launch.order.seed += launch.number;
    if (a_kernel_failed() || put_off(shared))
        return cudaSuccess;
    OpenDeviceMemory open;
    begin(launch);
    /* One worker always finds the same races first; so short a launch takes no longer. */
    const bool brief = checker->armed && launch.blocks * launch.threads <= 8192;
    const unsigned workers = brief && !getenv("SIMT_WORKERS") ? 1 : environment.workers;
    const cudaError_t error =
        run_on_workers(launch, workers, resident_limit(launch), environment.trace.file != nullptr);
    const cudaError_t refused = end(launch);
    return error ? error : refused;
}

cudaError_t simt_run(const struct simt_launch *asked)
{
    const cudaError_t error = launch_kernel(asked);
    const Site site = {asked->file, asked->line};
    if (error && asked->line && !a_kernel_failed()) /* <<<>>> returns nothing */
        simt_not_looked_at(error, "", &site);
    return error;
}
