/* Threads and registers for every length of row. */
#ifndef ONLINE_LANES_H
#define ONLINE_LANES_H

#include "device/tiles.cuh"

#include <limits.h>
#include <stdbool.h>

/*
 * Columns of a row at most, LANES that own it, KEPT float4 of each, and whether the row may be
 * longer than they hold. The smallest shape that holds a row computes it, as idle threads load
 * nothing but take registers.
 */
#define ROW_SHAPES(SHAPE)                                                                          \
    SHAPE(128, 8, 4, false), SHAPE(256, 16, 4, false), SHAPE(512, 32, 4, false),                   \
        SHAPE(1024, 32, 8, false), SHAPE(2048, 128, 4, false), SHAPE(4096, 256, 4, false),         \
        SHAPE(8192, 512, 4, false), SHAPE(16384, 512, 8, false), SHAPE(32768, 1024, 8, false),     \
        SHAPE(INT_MAX, 1024, 8, true)

/* Threads of a block where LANES of them own a row. */
#define BLOCK_THREADS(LANES) ((LANES) > 128 ? (LANES) : 128)

struct row_shape {
    int number; /* among the shapes */
    int lanes, kept;
    bool excess;
    int threads, blocks;
};

static inline struct row_shape row_shape_of(int rows, int cols)
{
#define SHAPE(COLS, LANES, KEPT, EXCESS)                                                           \
    {                                                                                              \
        COLS, LANES, KEPT, EXCESS                                                                  \
    }
    static const struct {
        int cols, lanes, kept;
        bool excess;
    } shapes[] = {ROW_SHAPES(SHAPE)};
#undef SHAPE
    struct row_shape shape;
    shape.number = 0;
    while (cols > shapes[shape.number].cols)
        shape.number++;
    shape.lanes = shapes[shape.number].lanes;
    shape.kept = shapes[shape.number].kept;
    shape.excess = shapes[shape.number].excess;
    shape.threads = BLOCK_THREADS(shape.lanes);
    shape.blocks = ceil_div(rows, shape.threads / shape.lanes);
    return shape;
}

#endif
