/* SIMT_ORDER, SIMT_WORKERS and SIMT_ARCH. */
#include "run/order.h"
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
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

/* One step of the splitmix64 generator. */
static uint64_t scramble(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

unsigned long long block_in_turn(const Order &order, unsigned long long turn,
                                 unsigned long long blocks)
{
    if (order.kind == Order::in_order)
        return turn;
    if (order.kind == Order::reversed)
        return blocks - 1 - turn;
    /* A stride without a common factor visits every block once, and needs no table. */
    unsigned long long stride = scramble(order.seed) % blocks;
    while (std::gcd(stride, blocks) != 1)
        stride++;
    unsigned long long offset = scramble(order.seed + 1) % blocks;
    return static_cast<unsigned long long>(
        (static_cast<unsigned __int128>(turn) * stride + offset) % blocks);
}

void shuffle(unsigned char *values, unsigned count, uint64_t seed)
{
    for (unsigned i = count; i > 1; i--) {
        seed = scramble(seed);
        unsigned other = static_cast<unsigned>(seed % i);
        unsigned char kept = values[i - 1];
        values[i - 1] = values[other];
        values[other] = kept;
    }
}

} /* namespace simt */
