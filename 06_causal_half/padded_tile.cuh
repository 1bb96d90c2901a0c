/* Tiles in shared memory whose rows are padded: those of wmma and of mma. */
#ifndef PADDED_TILE_CUH
#define PADDED_TILE_CUH

/* Elements, 16 bytes: rows of a tile start in other banks, so that the eight rows which ldmatrix
 * reads at once do. */
static const int PAD = 8;

/* Copies rows 0 .. ROWS - 1 of `matrix` into a tile, 8 elements at a time; past `rows` or head_dim
 * come zeros. By all of a block's THREADS. */
template <int ROWS, int HEAD_DIM, int THREADS, typename T>
static __device__ __forceinline__ void load_tile(T tile[ROWS][HEAD_DIM + PAD], const T *matrix,
                                                 int rows, int head_dim)
{
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * HEAD_DIM / 8; i += THREADS) {
        const int row = i / (HEAD_DIM / 8);
        const int col = i % (HEAD_DIM / 8) * 8;
        const bool inside = row < rows && col < head_dim;
        *(uint4 *)&tile[row][col] =
            inside ? *(const uint4 *)&matrix[(size_t)row * head_dim + col] : make_uint4(0, 0, 0, 0);
    }
}

#endif
