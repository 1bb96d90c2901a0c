/* memcpy_async and wait are in <cooperative_groups.h> itself. */
#include <cooperative_groups.h>
