// says: CUB is not supported by the CPU backend
#include <cub/cub.cuh>
