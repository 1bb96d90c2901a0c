// says: <thrust/device_vector.h> is not supported by the CPU backend
#include <thrust/device_vector.h>
