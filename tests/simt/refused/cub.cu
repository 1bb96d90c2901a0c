// says: <cub/cub.cuh> is not supported by the CPU backend
#include <cub/cub.cuh>
