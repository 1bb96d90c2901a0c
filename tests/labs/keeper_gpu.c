#include "keeper.h"

void keeper_begin(cudaStream_t stream, void *const *memory, const size_t *bytes, int count)
{
    (void)stream;
    (void)memory;
    (void)bytes;
    (void)count;
}

int keeper_end(void)
{
    return 0;
}
