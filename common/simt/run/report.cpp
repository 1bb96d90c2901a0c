/* Reports what went wrong in a kernel, above all threads that wait for each other in vain. */
#include "run/cluster.h"
#include "host/errors.h"
#include "host/memory.h"
#include <algorithm>

using namespace simt;

std::string simt::describe(const Thread &thread)
{
    const uint3 &b = thread.warp->block->index;
    const Index &t = thread.index;
    return format("block (%u,%u,%u), thread (%u,%u,%u)", b.x, b.y, b.z, t[0], t[1], t[2]);
}

const char *simt::kernel_name(const Launch &launch)
{
    const std::string &name = launch.function.name;
    return name.empty() ? launch.kernel : name.c_str();
}

void simt::report(Launch &launch, cudaError_t error, const char *pattern, ...)
{
    SIMT_FORMATTED(text, pattern);
    report_in_turn(launch, worker && worker->block ? worker->block->turn : 0, error, text);
}

void simt::report_in_turn(Launch &launch, unsigned long long turn, cudaError_t error,
                          const std::string &text)
{
    std::lock_guard<std::mutex> lock(launch.reporting);
    if (launch.cooperative || launch.cluster_blocks > 1) /* no block can go on without the others */
        turn = 0;
    if (launch.failed && turn >= launch.failed_turn)
        return;
    launch.failed_turn = turn;
    launch.error = error;
    launch.report = text;
    launch.failed = true;
    checker->reported(text.c_str());
}

/* A group is threads that wait at the same call of the same operation. */
struct Group {
    std::string place;
    const Thread *first;
    unsigned count;
};

static std::string awaited(const Thread &thread)
{
    static const char *const barriers[] = {"__syncthreads_count()", "__syncthreads_and()",
                                           "__syncthreads_or()", "__syncthreads()"};
    if (thread.wait <= Wait::barrier)
        return barriers[thread.barrier];
    if (thread.wait == Wait::warp)
        return thread.what;
    return thread.condition->name();
}

/* Says which lanes a warp's meeting waits for. Those that have returned never come. */
static std::string absent_lanes(const Warp &warp, const Meeting &meeting)
{
    const uint32_t absent = meeting.mask & warp.present & ~meeting.arrived;
    const uint32_t returned = absent & ~warp.alive, elsewhere = absent & warp.alive;
    std::string text = format(" (mask 0x%08x: in warp %u", meeting.mask, warp.number);
    if (returned)
        text += format(" lanes 0x%08x have returned", returned);
    if (elsewhere)
        text += format(returned ? ", lanes 0x%08x are on their way" : " lanes 0x%08x are missing",
                       elsewhere);
    return text + ")";
}

static std::string described(const Group &group)
{
    const Thread &thread = *group.first;
    std::string text = format("; %u %s at %s, the first of them thread (%u,%u,%u)", group.count,
                              group.count == 1 ? "waits" : "wait", group.place.c_str(),
                              thread.index[0], thread.index[1], thread.index[2]);
    const Warp &warp = *thread.warp;
    for (unsigned i = 0; thread.wait == Wait::warp && i < warp.meetings; i++)
        if (warp.meeting[i].arrived >> thread.lane & 1)
            text += absent_lanes(warp, warp.meeting[i]);
    return text;
}

/* Writes "...: 16 of 32 threads wait at __syncthreads(), f.cu:7; 16 have returned". */
void simt::report_waiting(const Block &block, const char *headline)
{
    constexpr size_t shown = 4;
    std::vector<Group> groups;
    unsigned others = 0;
    for (unsigned t = 0; t < block.threads; t++) {
        const Thread &thread = block.thread[t];
        if (!is_waiting(thread))
            continue;
        const Site &site = site_of(thread);
        const std::string place =
            format("%s, %s:%d", awaited(thread).c_str(), site.file, site.line);
        auto group = std::find_if(groups.begin(), groups.end(),
                                  [&](const Group &each) { return each.place == place; });
        if (group == groups.end())
            group = groups.insert(group, Group{place, &thread, 0});
        group->count++;
    }
    std::string text = format("%s in kernel %s, block (%u,%u,%u) of %u threads", headline,
                              kernel_name(*block.launch), block.index.x, block.index.y,
                              block.index.z, block.threads);
    for (size_t g = 0; g < groups.size(); g++)
        if (g < shown)
            text += described(groups[g]);
        else
            others += groups[g].count;
    if (others)
        text += format("; %u wait elsewhere", others);
    if (block.alive < block.threads)
        text += format("; %u %s returned", block.threads - block.alive,
                       block.threads - block.alive == 1 ? "has" : "have");
    report(*block.launch, cudaErrorLaunchFailure, "%s", text.c_str());
    abandon_block();
}

/* Returns a block of the cluster in which a thread waits for something else, if there is one. */
static const Block &block_to_blame(const Block &block)
{
    for (unsigned rank = 0; rank < block.cluster->blocks; rank++) {
        const Member &member = block.cluster->member[rank];
        for (unsigned t = 0; !member.ended && t < member.block->threads; t++)
            if (member.block->thread[t].stack && member.block->thread[t].wait != Wait::cluster)
                return *member.block;
    }
    return block;
}

void simt::report_deadlock(const Block &standing)
{
    bool barrier = false, warp = false;
    const Block &block = block_to_blame(standing);
    for (unsigned t = 0; t < block.threads; t++) {
        const Thread &thread = block.thread[t];
        barrier |= thread.stack && thread.wait != Wait::warp && thread.wait != Wait::condition;
        warp |= thread.stack && thread.wait == Wait::warp;
    }
    report_waiting(block, warp      ? "a warp operation that not all of its lanes reach"
                          : barrier ? "a barrier that not all threads reach"
                                    : "threads wait for something that no thread will do");
}

void simt::fail_at(const Call &call, const char *pattern, ...)
{
    SIMT_FORMATTED(message, pattern);
    simt_fail("%s at %s:%d: %s", call.what, call.site.file, call.site.line, message.c_str());
}

void simt_fail(const char *pattern, ...)
{
    SIMT_FORMATTED(what, pattern);
    Launch &launch = *worker->block->launch;
    report(launch, cudaErrorLaunchFailure, "%s (kernel %s, %s)", what.c_str(), kernel_name(launch),
           describe(*current_thread).c_str());
    abandon_block();
}

/* A worker leaves the handler by a switch to its own stack, as abandon_block always does. */
void simt::fail_kernel(int signal, const siginfo_t *info)
{
    static __thread bool failing; /* a fault while one is being reported is the runtime's own */
    if (!current_thread || failing)
        return; /* a fault of host code */
    failing = true;
    Launch &launch = *worker->block->launch;
    const bool divided = signal == SIGFPE, instruction = signal == SIGILL;
    const bool overflow = !divided && !instruction && on_thread_stack(info->si_addr);
    report(
        launch,
        instruction           ? cudaErrorIllegalInstruction
        : divided || overflow ? cudaErrorLaunchFailure
                              : cudaErrorIllegalAddress,
        "%s in kernel %s%s, %s%s",
        divided       ? "integer division by zero (or overflow)"
        : instruction ? "illegal instruction"
        : overflow    ? "stack overflow"
                   : format("illegal address %s,", describe_address(info->si_addr).c_str()).c_str(),
        kernel_name(launch),
        launch.line ? format(", launched at %s:%d", launch.file, launch.line).c_str() : "",
        describe(*current_thread).c_str(), overflow ? ": too much local memory or recursion" : "");
    failing = false;
    abandon_block();
}

/* assert() calls this, in place of the C library's. */
extern "C" void __assert_fail(const char *assertion, const char *file, unsigned int line,
                              const char *function) noexcept
{
    const std::string who = current_thread ? describe(*current_thread) : "";
    fprintf(stderr, "%s:%u: %s: %s%sAssertion `%s' failed.\n", file, line, function, who.c_str(),
            current_thread ? ": " : "", assertion);
    if (!current_thread)
        abort();
    report(*worker->block->launch, cudaErrorAssert, "%s:%u: assertion `%s' failed in kernel %s, %s",
           file, line, assertion, kernel_name(*worker->block->launch), who.c_str());
    abandon_block();
}
