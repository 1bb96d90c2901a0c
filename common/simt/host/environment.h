/* What the environment decides, read at every launch. */
#ifndef SIMT_ENVIRONMENT_H
#define SIMT_ENVIRONMENT_H

#include <cstddef>
#include <cstdint>

namespace simt
{

/* The order of blocks, warps and lanes; overlap: in order, but the blocks of launches on different
 * streams are mixed. */
struct Order {
    enum Kind { in_order, reversed, random, overlap } kind;
    uint64_t seed;
};

/* On a bad value: false, and a sentence in `complaint`. */
bool read_order(Order *order, char *complaint, size_t size);
bool read_workers(unsigned *workers, char *complaint, size_t size);
/* 75 for a T4; 90 when SIMT_ARCH is not set. */
bool read_architecture(int *architecture, char *complaint, size_t size);
/* Which launch is to fail, counted from 1 since the variable was set; 0 for none. */
bool read_failing_launch(unsigned long long *number, char *complaint, size_t size);
/* Counts a launch, or another call that prepares one; its number when it is to fail, otherwise 0.
 */
unsigned long long count_towards_failure();

/* SIMT_TRACE and its relatives. */
struct TraceOptions {
    static constexpr unsigned long long all = UINT64_MAX;
    const char *file;               /* null: no trace */
    unsigned long long block, warp; /* the only one, by its number, or all */
    size_t bytes;                   /* at most */
};
bool read_trace(TraceOptions *options, char *complaint, size_t size);

/* Whether SIMT_IGNORE is what is_ignored can read. */
bool check_ignored(char *complaint, size_t size);

/* Whether SIMT_IGNORE, a list like race:tile,uninitialised, names reports of a kind about a kernel
 * (with or without its template arguments). */
bool is_ignored(const char *kind, const char *kernel);

} /* namespace simt */

#endif
