/* The device-side headers (shuffles, cooperative groups, instructions) are built on this. */
#pragma once

#include <stddef.h>

namespace simt
{

/* A site is a call in the program, for reports. */
struct Site {
    const char *file;
    int line;

    constexpr Site(const char *file = __builtin_FILE(), int line = __builtin_LINE())
        : file(file), line(line)
    {
    }
};

/* D = A * B + C for ptx.cuh and mma.h, with cols / 2 elements of B, C and D a lane. */
void multiply_fragments(float *d, const void *a, const void *b, const float *c, unsigned cols,
                        bool bfloat16, Site site);

} /* namespace simt */

/* This is a function's last parameter, which its callers leave out. */
#define SIMT_CALL_SITE simt::Site site = simt::Site()

/* Who sees the order of atomic operations and fences, as cuda::thread_scope counts. */
enum simt_scope { simt_system, simt_device, simt_block, simt_thread };

extern "C" {

/* `slot[lane]` is what lane deposited, for every lane of `lanes` (those of the mask that have not
 * returned). Runs once, while the lanes wait, on one of their stacks. */
typedef void simt_meeting(void *const *slot, unsigned lanes);

/* The calling lane meets those of `mask` that call with the same mask and `run`. `what` names it in
 * reports. orders_memory: as __syncwarp does between the lanes, and shuffles and votes do not. */
void simt_meet(unsigned mask, void *slot, simt_meeting *run, const char *what, int orders_memory,
               simt::Site site);

/* Computed from an old value and another; from atomicInc() on, which wraps, by atomics only. */
/* clang-format off */
enum simt_operation {
    simt_add, simt_and, simt_or, simt_xor, simt_min_signed, simt_max_signed, simt_min, simt_max,
    simt_increment, simt_decrement, simt_add_float, simt_exchange, simt_compare, simt_load, simt_store,
    simt_operation_bits = 8 /* a scope stands above them */
};
/* clang-format on */

/* Lets other threads of the block, and other blocks, run. */
void simt_yield(void);

/* The launch fails with cudaErrorLaunchFailure and this message, and the block ends here. */
void simt_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* These convert to and from shared-window addresses, as __cvta_generic_to_shared gives them. */
unsigned simt_shared_address(const void *pointer);
void *simt_shared_pointer(unsigned address);

/* It is a barrier of <cuda/barrier>, in shared memory. simt_barrier_wait waits for the end of the
 * phase that simt_barrier_arrive returned. Who waits knows what those who arrived did. */
struct simt_barrier {
    unsigned long long mark; /* the place where it is initialised */
    unsigned expected, missing, phase;
};
void simt_barrier_init(struct simt_barrier *barrier, unsigned expected);
unsigned simt_barrier_arrive(struct simt_barrier *barrier, unsigned count, simt::Site site);
void simt_barrier_wait(struct simt_barrier *barrier, unsigned phase, simt::Site site);
/* Arrives, and is no longer expected from the next phase on. */
void simt_barrier_drop(struct simt_barrier *barrier, simt::Site site);

/* This is the barrier between all blocks of a cooperative launch. */
void simt_grid_sync(simt::Site site);
int simt_is_cooperative(void);

unsigned simt_lane(void);
unsigned simt_thread_number(void);
}
