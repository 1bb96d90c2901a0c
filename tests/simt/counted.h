/* Reads what the checked build counted of a launch. */
#ifndef COUNTED_H
#define COUNTED_H

#include "device/backend.h"
#include "tests/support/harness.h"

/* Returns the counts of what was launched since the last call. */
static inline struct counters counted(cudaError_t error)
{
    struct counters counters;
    cr_assert_eq(error, cudaSuccess, "%s: %s", cudaGetErrorName(error), backend_report());
    cr_assert(backend_counters(&counters));
    backend_counters_reset();
    return counters;
}

#define EXPECT(counters, member, value)                                                            \
    cr_expect_eq((counters).member, (unsigned long long)(value),                                   \
                 #member " is %llu, expected %llu", (counters).member,                             \
                 (unsigned long long)(value))

#endif
