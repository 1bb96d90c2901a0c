// says: <cuda_fp8.h> is not supported by the CPU backend
#include <cuda_fp8.h>
