/* In which order blocks, warps and lanes run. */
#pragma once

#include "host/environment.h"

namespace simt
{

/* The block that runs as number `turn` of `blocks`. */
unsigned long long block_in_turn(const Order &order, unsigned long long turn,
                                 unsigned long long blocks);

/* A number that the seed decides. */
uint64_t scramble(uint64_t seed);

/* Puts values[0 .. count) into an order that the seed decides. */
void shuffle(unsigned char *values, unsigned count, uint64_t seed);

} /* namespace simt */
