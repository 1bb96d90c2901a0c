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

/* *complaint becomes a sentence about the first bad value, in place of which the default stands. */
Environment read_environment(std::string *complaint);
Order read_order(std::string *complaint = nullptr);
/* Returns the architectures that SIMT_ARCH lists, one for each device: 90 alone by default. */
std::vector<int> read_architectures(std::string *complaint = nullptr);
TraceOptions read_trace(std::string *complaint = nullptr);

/* Counts a launch or what prepares one, and refuses the SIMT_FAIL_LAUNCH-th since that was set. */
cudaError_t fail_if_injected(const char *call);
/* Does the same for tensor maps and SIMT_FAIL_MAP. */
bool map_is_to_fail();

/* Returns SIMT_EXIT, the status of a program that hears of an error only at its end. */
int read_exit_status(int otherwise, std::string *complaint = nullptr);

/* Returns whether SIMT_IGNORE names reports of a kind about a kernel (or all its instances). */
bool is_ignored(const std::string &kind, const std::string &kernel);

} /* namespace simt */
