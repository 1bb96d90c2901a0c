/* Step 01's rows, a table for each ladder: common/problems/matmul.h says what the fields are. */
#include "01_step.h"
#include "harness/ladder.h"

/* Two loads per multiply-add. */
static struct cost naive_cost(const struct matmul_kernel *row, int M, int N, int K)
{
    (void)row;
    const long long elements = (long long)M * N;
    const long long loads = 2 * elements * K;
    return (struct cost){loads, elements, sizeof(float) * loads, sizeof(float) * elements};
}

static const struct matmul_kernel core[] = {
    MATMUL_ROW(
        uncoalesced, "1_uncoalesced.cu",
        "one thread per element of C; neighbouring threads walk down a column",
        .about.claims =
            "--m 64 --n 96 --k 32: global_load_bytes >= 1250000, global_load_sectors >= 160000",
        .cost = naive_cost),
    MATMUL_ROW(
        coalesced, "2_coalesced.cu", "the same arithmetic; neighbouring threads walk along a row",
        .about.claims =
            "--m 64 --n 96 --k 32: global_load_sectors <= 38400, global_load_bytes >= 1250000",
        .about.after = "uncoalesced", .cost = naive_cost),
    {.about.name = NULL},
};

const struct step step_01 = {"01_naive_matmul", {{"core", &matmul_problem, core}}};
