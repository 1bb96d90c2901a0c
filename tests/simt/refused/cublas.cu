// says: <cublas_v2.h> is not supported by the CPU backend
#include <cublas_v2.h>
