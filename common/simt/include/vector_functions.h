/* make_float4() and its relatives stand with their types here. */
#include <vector_types.h>
