/* Proofs of step 04's plans: tiles of keys, and the slabs of the warps. */
#include "harness/ladder.h"
#include "device/device.h"
#include "tests/support/harness.h"
#include "plans_attention.h"

/* The rows' functions ask this device. */
static struct device_limits tested;

static cudaError_t tested_device(struct device_limits *limits)
{
    *limits = tested;
    return cudaSuccess;
}
#define current_device tested_device

#include "04_flash_v1/04_step.c"

static const struct attention_kernel *flash_v1_kernels(void)
{
    return step_rows(&step_04, &attention_problem);
}

static int judged;

/* Warps take slices of 4 * TR rows in turn, so any number of warps goes through all rows. */
static void judge_slabs(const struct attention *call, const struct device_limits *device)
{
    const int d = call->head_dim;
    const bool large = large_slabs_fit(d, true, device);
    cr_assert(!large_slabs_fit(d, false, device));
    for (int choice = 0; choice <= large; choice++)
        for (int smallest = 0; smallest <= !choice; smallest++) {
            const int limit = smallest ? SMALLEST_LIMIT : device->shared_bytes;
            const struct slabs slabs = slabs_in(choice, d, limit);
            cr_assert(slabs.size >= 0 && slabs.size < 4);
            cr_assert(slabs.D >= d && slabs.D - 32 < d);
            cr_assert(slabs.Bc > 0 && slabs.Bc % 32 == 0 && slabs.TR > 0 && slabs.TR % 4 == 0);
            cr_assert(slabs.warps >= 3 && slabs.warps <= MAX_WARPS, "%d warps", slabs.warps);
            cr_assert(slabs.shared_bytes > 0 && slabs.shared_bytes <= limit &&
                          slabs.shared_bytes <= device->shared_bytes,
                      "%d bytes where %d are", slabs.shared_bytes, limit);
            cr_assert((int)sizeof(float) *
                          (tile_floats(slabs.D, slabs.Bc) +
                           slabs.warps * slab_floats(slabs.D, slabs.Bc, slabs.TR)) ==
                      slabs.shared_bytes);
            judged++;
        }
}

TEST(plans_04, slabs_fit_every_device)
{
    judged = 0;
    const int calls = plan_attention_calls(judge_slabs, 1, false);
    cr_expect(calls >= ATTENTION_CALLS && judged >= 2 * calls, "%d of %d calls", judged, calls);
}

static void judge_rows(const struct attention *call, const struct device_limits *device)
{
    tested = *device;
    for (const struct attention_kernel *row = flash_v1_kernels(); row->about.name; row++, judged++)
        plan_attention_row(row, call);
}

TEST(plans_04, costs_and_workspaces_fit_their_types)
{
    judged = 0;
    const int calls = plan_attention_calls(judge_rows, 1, false);
    cr_expect(judged == 14 * calls, "%d costs", judged);
}
