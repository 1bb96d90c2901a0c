/*
 * These prove plans: what a launcher would launch, for many sizes and devices, without a device.
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

/* Each proof draws this many random shapes, beside the edges. */
enum { RANDOM_SHAPES = 20000 };

/* The devices are each architecture from sm_75 to sm_120 with 1, 8, 114, 132 and 148
 * multiprocessors. */
extern const struct device_limits plan_devices[];
extern const size_t plan_device_count;

/* Returns the same numbers for the same seed (splitmix64). */
uint64_t plan_random(uint64_t *state);

/*
 * Draws a length from 0 to `most`: small, next to a multiple of a tile, or any length, with every
 * order of magnitude equally likely.
 */
int plan_length(uint64_t *state, int most);

/* Something changes at these lengths: 0, 1, tiles and limits, one more and one less. The list ends
 * with -1. */
extern const int plan_edges[];

/* A canvas is a grid of cells. Painting it proves that rectangles cover all of it exactly once. */
struct canvas {
    int rows, cols;           /* the output's, in elements */
    int cell_rows, cell_cols; /* edges of rectangles are multiples of these, or the output's */
    int down, across;         /* in cells */
    unsigned char *painted;
    long long area; /* of all rectangles so far */
    bool sound;     /* no rectangle overlapped another or left the grid */
};

/* Begins a canvas with cells of cell_rows by cell_cols elements; 0 stands for one element. */
void canvas_begin(struct canvas *canvas, int rows, int cols, int cell_rows, int cell_cols);
/* Paints the elements [row, end_row) x [col, end_col). An end past the output's is cut there. */
void canvas_paint(struct canvas *canvas, long long row, long long end_row, long long col,
                  long long end_col);
/* Returns whether each element was covered once. Frees what canvas_begin() allocated. */
bool canvas_end(struct canvas *canvas);

#endif
