/*
 * This reads the device's clock and power while it works, through NVML, the library behind
 * nvidia-smi. It only asks: nothing is ever set.
 */
#ifndef TESTS_BENCH_SENSORS_H
#define TESTS_BENCH_SENSORS_H

#include <stdbool.h>
#include <stddef.h>

struct sensors {
    void *nvml, *device;
    int (*clock)(void *device, unsigned type, unsigned *megahertz);
    int (*power)(void *device, unsigned *milliwatts);
};

struct reading {
    double megahertz, watts; /* the multiprocessors' clock; the board's power; 0 where unknown */
};

/* pci_bus_id is as from cudaDeviceGetPCIBusId(). Without NVML every reading is 0. */
void sensors_open(struct sensors *sensors, const char *pci_bus_id, char *driver,
                  size_t driver_size);
void sensors_close(struct sensors *sensors);
struct reading sensors_read(const struct sensors *sensors);

#endif
