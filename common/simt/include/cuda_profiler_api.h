/* Everything that nvcc's header of this name declares is in <cuda_runtime.h> here. */
#include <cuda_runtime.h>
