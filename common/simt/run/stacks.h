/* The stacks of a worker's threads: one area of address space per worker. */
#pragma once

#include <cstddef>

namespace simt
{

/* What a thread may use; only the pages that it touches take memory. */
constexpr size_t stack_bytes = 256 << 10;

/* From one stack of an area to the next: the stack and an inaccessible part below it. */
size_t stack_stride();

/* Address space for the stacks of one block, none of them usable yet; null if there is no more. */
char *reserve_stacks();
void release_stacks(char *area);
/* Makes the stacks `first` to `first + count - 1` of the area usable, counting from 0; false if
 * there is no memory. */
bool prepare_stacks(char *area, unsigned first, unsigned count);

/*
 * How many blocks of `threads` threads may run at a time before the stacks could take more than
 * half of the memory that the process may use. At least 1.
 */
unsigned long long affordable_blocks(unsigned threads);

} /* namespace simt */
