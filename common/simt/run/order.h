/* The order of blocks, warps and lanes, and what else the environment decides. */
#ifndef SIMT_ORDER_H
#define SIMT_ORDER_H

#include "run/internal.h"

namespace simt
{

/* SIMT_ORDER and SIMT_WORKERS. On a bad value: false, and a sentence in `complaint`. */
bool read_order(Order *order, char *complaint, size_t size);
bool read_workers(unsigned *workers, char *complaint, size_t size);
/* SIMT_ARCH: 75 for a T4; 90 when it is not set. */
bool read_architecture(int *architecture, char *complaint, size_t size);

/* The block that runs as number `turn` of `blocks`. */
unsigned long long block_in_turn(const Order &order, unsigned long long turn,
                                 unsigned long long blocks);

/* Puts values[0 .. count) into an order that the seed decides. */
void shuffle(unsigned char *values, unsigned count, uint64_t seed);

} /* namespace simt */

#endif
