// says: <cuda_gl_interop.h> is not supported by the CPU backend
// Names of older headers are known.
#include <device_launch_parameters.h>
#include <host_defines.h>
#include <math_functions.h>
#include <sm_20_atomic_functions.h>
#include <cuda_pipeline_primitives.h>
#include <cuda_gl_interop.h>
