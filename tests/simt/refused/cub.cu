// says: <cub/block/block_load.cuh> is not supported by the CPU backend
#include <cub/block/block_load.cuh>
