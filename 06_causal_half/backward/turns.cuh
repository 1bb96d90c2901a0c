/*
 * Blocks that add to one tile after the other, as backward_in_turn (29_backward_in_turn.cu) and
 * backward_in_order (33_backward_in_order.cu) want it: tickets, which say who started before whom,
 * and turns, which a warp waits for and passes on. A turn is an int in global memory: how many
 * have had theirs.
 */
#ifndef TURNS_CUH
#define TURNS_CUH

#include "device/warp.cuh"

/* Draws the block's ticket, by all threads, through a place in shared memory. */
static __device__ __forceinline__ int draw_ticket(int *ticket, int *tickets)
{
    if (threadIdx.x == 0)
        *ticket = atomicAdd(tickets, 1);
    __syncthreads(); /* the ticket is there before any thread reads it */
    return *ticket;
}

/* Whose turn it is. One lane asks: lanes that each wait for a turn of their own may wait for one
 * another. */
static __device__ __forceinline__ int ask(int *turn)
{
    return threadIdx.x % WARP == 0 ? atomicAdd(turn, 0) : 0;
}

/* Returns once it is `mine`; `now` is what ask() said. */
static __device__ __forceinline__ void wait_for_turn(int *turn, int mine, int now)
{
    if (threadIdx.x % WARP == 0) {
        for (; now != mine; now = ask(turn))
            __nanosleep(100);
        __threadfence(); /* acquire: who comes behind it sees dQ as it was passed on */
    }
    __syncwarp(); /* the other lanes come after lane 0 has seen the turn */
}

static __device__ __forceinline__ void pass_turn_on(int *turn, int next)
{
    __syncwarp(); /* lane 0 passes on what all lanes have stored, or waited for */
    if (threadIdx.x % WARP == 0) {
        __threadfence(); /* release: whoever sees the new turn sees dQ as it is now */
        atomicExch(turn, next);
    }
}

#endif
