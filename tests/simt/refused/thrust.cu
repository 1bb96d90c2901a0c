// says: Thrust is not supported by the CPU backend
#include <thrust/device_vector.h>
