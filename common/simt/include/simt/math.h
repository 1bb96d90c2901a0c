/* placeholder */
#ifndef SIMT_MATH_H
#define SIMT_MATH_H
#include <math.h>
#endif
