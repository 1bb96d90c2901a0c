/*
 * Merge two (m, l).
 *
 * m is the maximum of some numbers x, and l the sum of their exp(x - m). Two threads have such a
 * pair each, of different numbers; make the pair of all of them together. Of no numbers at all, m
 * is -INFINITY and l is 0, and that may be so on one side, or on both.
 */
#include "common/harness/puzzle.cuh"

struct sum {
    float m, l;
};

/* Returns m and l of the numbers of both. */
__device__ struct sum merge(struct sum a, struct sum b)
{
    const float m = fmaxf(a.m, b.m);
    if (m == -INFINITY)
        return a;
    return {m, a.l * expf(a.m - m) + b.l * expf(b.m - m)};
}

__global__ void merge_all(const float *m, const float *l, float *merged, int pairs)
{
    const int i = threadIdx.x;
    if (i >= pairs)
        return;
    const struct sum sum = merge({m[2 * i], l[2 * i]}, {m[2 * i + 1], l[2 * i + 1]});
    merged[2 * i] = sum.m;
    merged[2 * i + 1] = sum.l;
}

int main(void)
{
    const float none = -INFINITY;
    /* Each row has one side's numbers, then the other's; `none` stands for fewer numbers. */
    const float x[][4] = {{1, 1, 1, 1},        {0, 1, 2, 3},         {3, 2, 1, 0},
                          {80, 80, -80, 0},    {-100, -99, 100, 99}, {-5, none, -7, -6},
                          {none, none, -3, 2}, {-4, 3, none, none},  {none, none, none, none}};
    enum { PAIRS = sizeof x / sizeof x[0] };
    const struct array m = numbers("m", 2 * PAIRS), l = numbers("l", 2 * PAIRS);
    const struct array merged = unwritten("merged", 2 * PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        float all = none, sum = 0;
        for (int side = 0; side < 2; side++) {
            const float *two = &x[i][2 * side];
            const float largest = fmaxf(two[0], two[1]);
            m.host[2 * i + side] = largest;
            l.host[2 * i + side] =
                largest == none ? 0 : expf(two[0] - largest) + expf(two[1] - largest);
            all = fmaxf(all, largest);
        }
        for (int k = 0; k < 4; k++)
            sum += x[i][k] == none ? 0 : expf(x[i][k] - all);
        merged.host[2 * i] = all;
        merged.host[2 * i + 1] = sum;
    }
    to_device(m);
    to_device(l);
    merge_all<<<1, 32>>>(m.device, l.device, merged.device, PAIRS);
    check(merged, "%d pairs: merged[2 i] is m and merged[2 i + 1] is l of pair i", PAIRS);
    return right();
}
