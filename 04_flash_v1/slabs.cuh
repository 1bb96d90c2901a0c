/* What a block has in shared memory: K and V of one tile of keys, and a slab for each of its warps.
 * flash_v1_rectangles (08_flash_v1_rectangles.cu) brings it, the rungs after it keep it. */
#ifndef SLABS_CUH
#define SLABS_CUH

#include <stddef.h>

static const int MAX_WARPS = 8;
static const size_t SMALLEST_LIMIT =
    64 * 1024; /* of shared memory a block: sm_75's, later ones allow 99 KB or more */

/* Pads rows of transposed tiles: 8 lanes along k and 4 across store to 32 different banks. */
static const int PAD = 4;

static __host__ __device__ constexpr int slab_floats(int D, int Bc, int TR)
{
    return (D > Bc ? D : Bc) * (4 * TR + PAD);
}

static __host__ __device__ constexpr int tile_floats(int D, int Bc)
{
    return D * (Bc + PAD) + Bc * D;
}

#endif
