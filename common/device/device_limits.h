/*
 * What a plan needs to know of a device, in plain C: a launcher asks the current device (device.h),
 * a test makes up as many as it likes.
 */
#ifndef COMMON_DEVICE_LIMITS_H
#define COMMON_DEVICE_LIMITS_H

struct device_limits {
    int architecture;    /* compute capability, major * 10 + minor */
    int multiprocessors; /* at least 1 */
    int shared_bytes;    /* of shared memory that a block may have, when asked for */
};

#endif
