/* The environment decides this, and is read at every launch. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <string>
#include <vector>

namespace simt
{

/* It is that of blocks, warps and lanes. Overlap is in order, but mixes streams' blocks. */
struct Order {
    enum Kind { in_order, reversed, random, overlap } kind;
    uint64_t seed;
};

/* These are SIMT_TRACE and its relatives. */
struct TraceOptions {
    static constexpr unsigned long long all = UINT64_MAX;
    const char *file;               /* null: no trace */
    unsigned long long block, warp; /* the only one, by its number, or all */
    size_t bytes;                   /* at most */
};

struct Environment {
    Order order;
    unsigned workers;
    TraceOptions trace;
};

/* Takes the default where a value is bad. *complaint becomes a sentence about the first such one.
 */
Environment read_environment(std::string *complaint);
Order read_order(std::string *complaint = nullptr);
/* Returns the architectures that SIMT_ARCH lists, one for each device: 90 alone by default. */
std::vector<int> read_architectures(std::string *complaint = nullptr);
TraceOptions read_trace(std::string *complaint = nullptr);

/* Counts a launch, or another call that prepares one. SIMT_FAIL_LAUNCH is the number of the launch
 * to refuse, counted from 1 since it was set. */
cudaError_t fail_if_injected(const char *call);
/* Does the same for tensor maps and SIMT_FAIL_MAP. */
bool map_is_to_fail();

/* Returns SIMT_EXIT, the status of a program that hears of an error only at its end. */
int read_exit_status(int otherwise, std::string *complaint = nullptr);

/* Returns whether SIMT_IGNORE, a list like race:tile,uninitialised, names reports of a kind about a
 * kernel (with or without its template arguments). */
bool is_ignored(const std::string &kind, const std::string &kernel);

} /* namespace simt */
