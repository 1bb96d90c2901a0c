#include "sensors.h"

#include <dlfcn.h>
#include <stdio.h>

/* These are from nvml.h, which is not always installed with the library. */
enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1 };

typedef int nvml_init_fn(void);
typedef int nvml_handle_fn(const char *pci_bus_id, void **device);
typedef int nvml_driver_fn(char *version, unsigned length);

/* Finds a function of the library. C has no cast from an object's pointer to a function's, so the
 * pointer is copied. */
#define FIND(function, library, name) (*(void **)(&(function)) = dlsym((library), (name)))

void sensors_open(struct sensors *sensors, const char *pci_bus_id, char *driver, size_t driver_size)
{
    nvml_init_fn *init;
    nvml_handle_fn *handle;
    nvml_driver_fn *driver_version;

    *sensors = (struct sensors){.nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW)};
    snprintf(driver, driver_size, "unknown");
    if (!sensors->nvml)
        return;
    FIND(init, sensors->nvml, "nvmlInit_v2");
    FIND(handle, sensors->nvml, "nvmlDeviceGetHandleByPciBusId_v2");
    FIND(driver_version, sensors->nvml, "nvmlSystemGetDriverVersion");
    FIND(sensors->clock, sensors->nvml, "nvmlDeviceGetClockInfo");
    FIND(sensors->power, sensors->nvml, "nvmlDeviceGetPowerUsage");
    if (!init || !handle || !driver_version || !sensors->clock || !sensors->power ||
        init() != NVML_SUCCESS || handle(pci_bus_id, &sensors->device) != NVML_SUCCESS) {
        sensors_close(sensors);
        return;
    }
    driver_version(driver, (unsigned)driver_size);
}

void sensors_close(struct sensors *sensors)
{
    if (sensors->nvml)
        dlclose(sensors->nvml);
    *sensors = (struct sensors){0};
}

struct reading sensors_read(const struct sensors *sensors)
{
    struct reading reading = {0.0, 0.0};
    unsigned value;
    if (!sensors->nvml)
        return reading;
    if (sensors->clock(sensors->device, NVML_CLOCK_SM, &value) == NVML_SUCCESS)
        reading.megahertz = value;
    if (sensors->power(sensors->device, &value) == NVML_SUCCESS)
        reading.watts = value / 1000.0;
    return reading;
}
