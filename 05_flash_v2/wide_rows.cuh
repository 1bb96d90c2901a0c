/* How wide a launcher of this step may load. */
#ifndef STEP_05_WIDE_ROWS_CUH
#define STEP_05_WIDE_ROWS_CUH

#include <stdint.h>

/* Whether each row of the matrix can be read and written as float4: all rows start at multiples of 16 bytes.
 */
static inline bool rows_are_wide(const float *matrix, int head_dim)
{
    return head_dim % 4 == 0 && (uintptr_t)matrix % 16 == 0;
}

#endif
