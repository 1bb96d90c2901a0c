/* Who owns a row, for the kernels from online_block to online_ragged: a warp or a block, by the
 * row's length. */
#ifndef LANES_H
#define LANES_H

#include <stdbool.h>

enum { KEPT_COLS = 32 }; /* columns of a row that a thread keeps where its block holds all of it */

struct row_owner {
    int lanes;  /* 32: a warp owns the row, which is online_warp's; else a block of 128 or more */
    bool holds; /* the block's registers hold the row; else online_block reads it twice */
};

/* As many threads as give each about 32 columns, up to 1024. */
static inline struct row_owner row_owner_of(int cols)
{
    struct row_owner owner;
    owner.lanes = cols <= 1024 ? 32 : cols <= 4096 ? 128 : cols <= 16384 ? 512 : 1024;
    owner.holds = owner.lanes > 32 && cols <= owner.lanes * KEPT_COLS;
    return owner;
}

#endif
