/* SIMT_ORDER, SIMT_WORKERS and SIMT_ARCH. */
#include "host/environment.h"
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace simt
{

/* A whole decimal number from `least` to `most`. */
static bool parse(const char *text, unsigned long long least, unsigned long long most,
                  unsigned long long *value)
{
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return !*end && errno == 0 && *value >= least && *value <= most;
}

bool read_order(Order *order, char *complaint, size_t size)
{
    const char *text = getenv("SIMT_ORDER");
    unsigned long long seed = 1;
    if (!text || !*text || !strcmp(text, "inorder"))
        order->kind = Order::in_order;
    else if (!strcmp(text, "reversed"))
        order->kind = Order::reversed;
    else if (!strcmp(text, "random") ||
             (!strncmp(text, "random:", 7) && parse(text + 7, 0, UINT64_MAX, &seed)))
        order->kind = Order::random;
    else {
        snprintf(complaint, size,
                 "SIMT_ORDER is '%.100s'; it must be inorder, reversed, random or random:SEED",
                 text);
        return false;
    }
    order->seed = seed;
    return true;
}

bool read_workers(unsigned *workers, char *complaint, size_t size)
{
    const char *text = getenv("SIMT_WORKERS");
    unsigned long long value = std::thread::hardware_concurrency();
    if (value == 0)
        value = 1;
    if (text && *text && !parse(text, 1, 1024, &value)) {
        snprintf(complaint, size, "SIMT_WORKERS is '%.100s'; it must be a number from 1 to 1024",
                 text);
        return false;
    }
    *workers = static_cast<unsigned>(value);
    return true;
}

bool read_architecture(int *architecture, char *complaint, size_t size)
{
    static const int known[] = {70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
    const char *text = getenv("SIMT_ARCH");
    unsigned long long value = 90;
    if (!text || !*text || parse(text, 0, 1000, &value)) {
        for (int each : known) {
            if (each == static_cast<int>(value)) {
                *architecture = each;
                return true;
            }
        }
    }
    snprintf(complaint, size,
             "SIMT_ARCH is '%.100s'; it must be a compute capability without the dot, from 70 "
             "(Volta) to "
             "121: 75, 80, "
             "86, 89, 90, ...",
             text);
    return false;
}

} /* namespace simt */
