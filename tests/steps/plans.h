/*
 * Proofs of plans: what a launcher would launch, for many sizes and devices, without a device.
 *
 * A plan is plain C in a header of its kernel's name. Each step's file of proofs (plans_02.c, ...)
 * draws sizes here and shows for every plan that its parts cover the output exactly once and stay
 * inside it.
 */
#ifndef TESTS_PLANS_H
#define TESTS_PLANS_H

#include "device/tiles.cuh"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Random shapes of each proof, beside the edges. */
enum { RANDOM_SHAPES = 20000 };

/* Devices: each architecture from sm_75 to sm_120 with 1, 8, 114, 132 and 148 multiprocessors. */
extern const struct device_limits plan_devices[];
extern const size_t plan_device_count;

/* The same numbers for the same seed (splitmix64). */
uint64_t plan_random(uint64_t *state);

/*
 * A length from 0 to `most`: small, next to a multiple of a tile, or anything, each length's order
 * of magnitude as likely as another's.
 */
int plan_length(uint64_t *state, int most);

/* Lengths at which something changes: 0, 1, tiles and limits, one more and one less. Ends with -1.
 */
extern const int plan_edges[];

/* A painter of a grid of cells: proves that rectangles cover all of it exactly once. */
struct canvas {
    int rows, cols; /* of the output, in elements */
    int cell_rows,
        cell_cols;    /* a rectangle's edges lie at multiples of these, or at the output's end */
    int down, across; /* cells */
    unsigned char *painted;
    long long area; /* of the rectangles so far */
    bool sound;     /* none of them overlapped another or left the grid */
};

/* Cells of cell_rows by cell_cols elements; 0 stands for one element. */
void canvas_begin(struct canvas *canvas, int rows, int cols, int cell_rows, int cell_cols);
/* The elements [row, end_row) x [col, end_col); ends past the output's are cut there. */
void canvas_paint(struct canvas *canvas, long long row, long long end_row, long long col,
                  long long end_col);
/* Whether each element was covered once; frees what canvas_begin() took. */
bool canvas_end(struct canvas *canvas);

#endif
