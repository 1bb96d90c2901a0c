/* The checks of attention, forward and backward, share this. */
#include <stdlib.h>

/* Copies count numbers in the kernel's element type. */
static void *to_type(const float *x, size_t count)
{
    void *rounded = malloc(count * tensor_element_bytes(type));
    for (size_t i = 0; i < count; i++)
        tensor_store(rounded, type, i, x[i]);
    return rounded;
}
