/* movmatrix transposes a matrix within the registers of a warp. */
#include "instructions/asynchronous.h"
#include <ptx.cuh>

using namespace simt;

struct Move {
    uint32_t before, after;
};

static void transpose(void *const *slot, unsigned lanes)
{
    require_whole_warp(lanes);
    /* Row `row` of the matrix lies in four lanes, two elements in each. */
    const auto element = [slot](unsigned row, unsigned col) {
        return static_cast<const Move *>(slot[4 * row + col / 2])->before >> 16 * (col % 2) &
               0xffff;
    };
    for (unsigned lane = 0; lane < warp_size; lane++) {
        const unsigned row = lane / 4, col = lane % 4 * 2;
        static_cast<Move *>(slot[lane])->after = element(col, row) | element(col + 1, row) << 16;
    }
}

uint32_t ptx::movmatrix_transposed(uint32_t r, Site site)
{
    Move move = {r, 0};
    simt_meet(whole_warp, &move, transpose, "movmatrix", 0, site);
    return move.after;
}
