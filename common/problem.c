#include "problem.h"

#include <math.h>

double roundings(double n)
{
    const double lambda = 6.0;
    return fmin(n, lambda * sqrt(n));
}
