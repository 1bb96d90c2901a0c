/* What the environment decides, read at every launch: SIMT_ORDER, SIMT_WORKERS and SIMT_ARCH. */
#ifndef SIMT_ENVIRONMENT_H
#define SIMT_ENVIRONMENT_H

#include <cstddef>
#include <cstdint>

namespace simt
{

/* The order of blocks, warps and lanes. */
struct Order {
    enum Kind { in_order, reversed, random } kind;
    uint64_t seed;
};

/* On a bad value: false, and a sentence in `complaint`. */
bool read_order(Order *order, char *complaint, size_t size);
bool read_workers(unsigned *workers, char *complaint, size_t size);
/* 75 for a T4; 90 when SIMT_ARCH is not set. */
bool read_architecture(int *architecture, char *complaint, size_t size);

} /* namespace simt */

#endif
