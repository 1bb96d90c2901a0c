#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *detector_name(enum detector detector)
{
    static const char *const names[] = {
        [DETECTOR_NONE] = "none",     [DETECTOR_LAUNCH] = "launch",
        [DETECTOR_GUARD] = "guard",   [DETECTOR_INPUTS] = "inputs",
        [DETECTOR_POISON] = "poison", [DETECTOR_COMPARISON] = "comparison",
    };
    return names[detector];
}

size_t check_unwritten(const void *data, enum tensor_type type, size_t count)
{
    static const unsigned char poison[sizeof(float)] = {0xff, 0xff, 0xff, 0xff};
    const size_t size = tensor_element_bytes(type);
    for (size_t index = 0; index < count; index++)
        if (memcmp((const char *)data + index * size, poison, size) == 0)
            return index;
    return count;
}

static double element_error(double out, double value, double scale)
{
    if (isnan(value))
        return isnan(out) ? 0.0 : INFINITY;
    if (isinf(value))
        return out == value ? 0.0 : INFINITY;
    return fabs(out - value) / scale;
}

void check_compare(struct verdict *verdict, const struct tensor *tensor, const void *data,
                   size_t first, size_t count, const double *value, const double *scale)
{
    for (size_t i = 0; i < count; i++) {
        const double out = tensor_element(data, tensor->type, first + i);
        const double error = element_error(out, value[i], scale[i]);
        if (!(error <= verdict->error)) /* also when it is NaN */
            verdict->error = error;
        if (!(error <= verdict->bound) && verdict->status != VERDICT_FAIL) {
            verdict->status = VERDICT_FAIL;
            verdict->detector = DETECTOR_COMPARISON;
            snprintf(verdict->reason, sizeof verdict->reason,
                     "%s[%zu][%zu] is %.9g, should be %.9g", tensor->name,
                     (first + i) / tensor->cols, (first + i) % tensor->cols, out, value[i]);
        }
    }
}
