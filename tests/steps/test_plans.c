/* This draws shapes and paints outputs for the proofs of plans, and tests what the painter
 * notices. */
#include "plans.h"

#include "tests/support/harness.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A block that opts in has 64 KB on sm_75, 99 on sm_86, 89 and 120, 163 on sm_80 and 87, 227 on
 * sm_90 and 100. Memory moves so many GB/s on some device of each; on the last it is unknown. */
#define EACH_COUNT(architecture, shared, speed)                                                    \
    {architecture, 1, shared << 10, speed}, {architecture, 8, shared << 10, speed},                \
        {architecture, 114, shared << 10, speed}, {architecture, 132, shared << 10, speed},        \
    {                                                                                              \
        architecture, 148, shared << 10, 0                                                         \
    }
const struct device_limits plan_devices[] = {
    EACH_COUNT(75, 64, 320),    EACH_COUNT(80, 163, 1555), EACH_COUNT(86, 99, 768),
    EACH_COUNT(87, 163, 205),   EACH_COUNT(89, 99, 1008),  EACH_COUNT(90, 227, 4917),
    EACH_COUNT(100, 227, 8000), EACH_COUNT(120, 99, 1792),
};
const size_t plan_device_count = sizeof plan_devices / sizeof *plan_devices;

const int plan_edges[] = {0,  1,  15,  16,  17,  31,  32,  33,  63,  64,  65,  79,
                          80, 81, 127, 128, 129, 255, 256, 257, 511, 512, 513, -1};

uint64_t plan_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

int plan_length(uint64_t *state, int most)
{
    static const int tiles[] = {1, 16, 48, 64, 80, 128, 160, 192, 256, 1024};
    int bits = 1;
    while (bits < 31 && most >> bits != 0)
        bits++;
    const uint64_t magnitude = plan_random(state) % (uint64_t)(bits + 1);
    long long length = (long long)(plan_random(state) & ((1ull << magnitude) - 1));
    if (plan_random(state) % 2 == 0) {
        const int tile = tiles[plan_random(state) % (sizeof tiles / sizeof *tiles)];
        length = length / tile * tile + (long long)(plan_random(state) % 3) - 1;
    }
    return length < 0 ? 0 : length > most ? most : (int)length;
}

void canvas_begin(struct canvas *canvas, int rows, int cols, int cell_rows, int cell_cols)
{
    const int cell_down = cell_rows > 0 ? cell_rows : 1,
              cell_across = cell_cols > 0 ? cell_cols : 1;
    const int down = rows / cell_down + (rows % cell_down != 0),
              across = cols / cell_across + (cols % cell_across != 0);
    *canvas = (struct canvas){
        rows, cols, cell_down, cell_across, down, across, calloc((size_t)down * across + 1, 1),
        0,    true};
    cr_assert(canvas->painted != NULL);
}

void canvas_paint(struct canvas *canvas, long long row, long long end_row, long long col,
                  long long end_col)
{
    if (end_row > canvas->rows)
        end_row = canvas->rows;
    if (end_col > canvas->cols)
        end_col = canvas->cols;
    if (row < 0 || col < 0 || row >= end_row || col >= end_col || row % canvas->cell_rows != 0 ||
        col % canvas->cell_cols != 0) {
        canvas->sound = false; /* it lies outside, or is no rectangle of cells */
        return;
    }
    canvas->area += (end_row - row) * (end_col - col);
    const long long end_down = (end_row + canvas->cell_rows - 1) / canvas->cell_rows,
                    end_across = (end_col + canvas->cell_cols - 1) / canvas->cell_cols;
    for (long long y = row / canvas->cell_rows; y < end_down; y++)
        for (long long x = col / canvas->cell_cols; x < end_across; x++)
            canvas->sound &= canvas->painted[y * canvas->across + x]++ == 0;
}

bool canvas_end(struct canvas *canvas)
{
    free(canvas->painted);
    return canvas->sound && canvas->area == (long long)canvas->rows * canvas->cols;
}

/* Paints tiles of 2 x 3 on an output of 5 x 7; `wrong` says what is wrong with the last tile. */
static bool covers(const char *wrong)
{
    struct canvas canvas;
    canvas_begin(&canvas, 5, 7, 2, 3);
    for (int row = 0; row < 5; row += 2)
        for (int col = 0; col < 7; col += 3) {
            if (row < 4 || col < 6 || strcmp(wrong, "nothing") == 0)
                canvas_paint(&canvas, row, row + 2, col, col + 3);
            else if (strcmp(wrong, "elsewhere") == 0)
                canvas_paint(&canvas, 0, 2, 0, 3);
            else if (strcmp(wrong, "outside") == 0)
                canvas_paint(&canvas, 6, 8, 0, 3);
            else if (strcmp(wrong, "too much") == 0)
                canvas_paint(&canvas, 2, 6, 6, 9);
            else if (strcmp(wrong, "askew") == 0)
                canvas_paint(&canvas, 4, 6, 5, 8);
        }
    return canvas_end(&canvas);
}

TEST(painter, notices_what_is_wrong)
{
    cr_expect(covers("nothing"));
    cr_expect(!covers("missing"));
    cr_expect(!covers("elsewhere"));
    cr_expect(!covers("outside"));
    cr_expect(!covers("too much"));
    cr_expect(!covers("askew"));
}

TEST(drawing, reaches_all_magnitudes)
{
    uint64_t state = 1;
    int magnitudes[32] = {0}, largest = 0;
    for (int n = 0; n < 10000; n++) {
        const int length = plan_length(&state, INT_MAX);
        cr_assert(length >= 0);
        largest = length > largest ? length : largest;
        int bits = 0;
        while (length >> bits != 0)
            bits++;
        magnitudes[bits]++;
    }
    for (int bits = 0; bits < 31; bits++)
        cr_expect(magnitudes[bits] > 50, "%d lengths of %d bits", magnitudes[bits], bits);
    cr_expect(largest > INT_MAX / 2);
    for (int n = 0; n < 1000; n++)
        cr_expect(plan_length(&state, 100) <= 100);
}
