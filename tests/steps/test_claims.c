/*
 * Every rung's claim holds for it, and holds neither for the rung that it follows nor for the naive
 * kernels of its problem nor for one thread that does everything (serial.cu).
 *
 * With LADDER_CLAIMS set, each bound is a line on stderr that begins "claim ".
 */
#include "01_naive_matmul/01_step.h"
#include "02_tiled_matmul/02_step.h"
#include "03_online_softmax/03_step.h"
#include "04_flash_v1/04_step.h"
#include "05_flash_v2/05_step.h"
#include "06_causal_half/06_step.h"
#include "harness/claims.h"
#include "harness/ladder.h"
#include "tests/support/harness.h"
#include "tests/support/ladder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct step *const steps[] = {&step_01, &step_02, &step_03,
                                           &step_04, &step_05, &step_06};
enum { STEPS = sizeof steps / sizeof *steps };

/* Returns the row with this name in any step, or null. */
static const struct kernel *find(const struct problem *problem, const char *name)
{
    for (int i = 0; i < STEPS; i++) {
        const void *rows = step_rows(steps[i], problem);
        const struct kernel *row;
        for (size_t k = 0; (row = problem_kernel(problem, rows, k))->name; k++)
            if (strcmp(row->name, name) == 0)
                return row;
    }
    return NULL;
}

matmul_fn matmul_serial;
softmax_fn softmax_serial;
attention_fn attention_serial;
attention_backward_fn attention_backward_serial;

static const struct matmul_kernel serial_matmul = MATMUL_ROW(serial, "", "", .load_width = 1);
static const struct softmax_kernel serial_softmax = SOFTMAX_ROW(serial, "", "", .sweeps = 1);
static const struct attention_kernel serial_attention =
    ATTENTION_ROW(serial, "", "", .types = 1 << TENSOR_F32 | 1 << TENSOR_F16 | 1 << TENSOR_BF16,
                  .max_head_dim = 128, .causal = true);
static const struct attention_backward_kernel serial_backward = ATTENTION_BACKWARD_ROW(
    backward_serial, "", "", .types = 1 << TENSOR_F32 | 1 << TENSOR_F16 | 1 << TENSOR_BF16,
    .max_head_dim = 128, .causal = true);

/* Returns the kernel that does the whole of a problem in one thread. */
static const struct kernel *serial_of(const struct problem *problem)
{
    return problem == &matmul_problem      ? &serial_matmul.about
           : problem == &softmax_problem   ? &serial_softmax.about
           : problem == &attention_problem ? &serial_attention.about
                                           : &serial_backward.about;
}

/* Checks that a kernel which does not do what the claimant is about keeps less than it claims.
 * Returns whether it could be run: it may not take the claim's sizes. */
static bool check_other(const struct problem *problem, const struct kernel *claimant,
                        const struct kernel *other, struct claims *claims)
{
    if (!claims_check(problem, claimant, other, claims))
        return false;
    cr_expect(!claims->kept, "%s keeps all that %s claims", other->name, claimant->name);
    return true;
}

/* No naive kernel uses tensor cores, and to run it costs seconds where a claim wants them. */
static bool wants_tensor_cores(const struct claims *claims)
{
    for (int i = 0; i < claims->count; i++)
        if (!claims->claim[i].at_most && strcmp(claims->claim[i].what, "matrix_multiplies") == 0)
            return true;
    return false;
}

/* Checks the naive kernel, the first of a step that takes the sizes, and the serial one. Returns
 * the former. */
static const struct kernel *check_naive(const struct problem *problem, const struct kernel *kernel,
                                        struct claims *claims)
{
    const struct kernel *serial = serial_of(problem);
    cr_expect(check_other(problem, kernel, serial, claims), "%s", claims->complaint);
    for (int i = 0; i < STEPS; i++) {
        const struct kernel *first = problem_kernel(problem, step_rows(steps[i], problem), 0);
        if (first == kernel)
            break;
        if (first->name && check_other(problem, kernel, first, claims))
            return first;
    }
    return serial;
}

static void print(const struct kernel *kernel, const struct claims *own,
                  const struct kernel *before, const struct claims *others)
{
    for (int i = 0; getenv("LADDER_CLAIMS") && i < own->count; i++) {
        const struct claim *claim = &own->claim[i];
        fprintf(stderr, "claim %s at %s: %s %s %llu, counts %llu", kernel->name, claim->options,
                claim->what, claim->at_most ? "<=" : ">=", claim->bound, claim->value);
        if (before)
            fprintf(stderr, "; %s %llu%s", before->name, others->claim[i].value,
                    others->claim[i].kept ? ", which keeps it" : "");
        fprintf(stderr, "\n");
    }
}

/* A claim at a window can be asked of no kernel without one: neither of the rung before nor of the
 * naive ones. A planted fault shows that it is not empty. */
static bool adds_variants(const struct problem *problem, const struct kernel *kernel,
                          const struct kernel *before)
{
    return problem == &attention_problem && ((const struct attention_kernel *)kernel)->variants &&
           !((const struct attention_kernel *)before)->variants;
}

static void check_row(const struct problem *problem, const struct kernel *kernel)
{
    struct claims own, others = {0};
    if (!claims_check(problem, kernel, kernel, &own)) {
        cr_expect(false, "%s", own.complaint);
        return;
    }
    cr_expect(own.count > 0 || !kernel_on_ladder(kernel, "core"), "%s makes no claim",
              kernel->name);
    for (int i = 0; i < own.count; i++)
        cr_expect(own.claim[i].kept, "%s claims at %s %s %s %llu, and counts %llu", kernel->name,
                  own.claim[i].options, own.claim[i].what,
                  own.claim[i].at_most ? "<=" : ">=", own.claim[i].bound, own.claim[i].value);
    if (own.count == 0)
        return;
    const struct kernel *before = kernel->after ? find(problem, kernel->after) : NULL;
    cr_assert(before || !kernel->after, "%s follows no kernel that there is", kernel->name);
    if (before && adds_variants(problem, kernel, before)) {
        print(kernel, &own, NULL, &others);
        return;
    }
    if (!wants_tensor_cores(&own)) {
        const struct kernel *naive = check_naive(problem, kernel, &others);
        before = before ? before : naive;
    }
    if (kernel->after) {
        if (!check_other(problem, kernel, before, &others)) {
            /* Where only some kernels are under test, this one may be wrong. */
            cr_expect(getenv(KERNEL_VARIABLE), "%s, for the claims of %s", others.complaint,
                      kernel->name);
            before = NULL;
        }
    }
    print(kernel, &own, before, &others);
}

/* Ladders are not named here: none can be forgotten. */
static void check_step(const struct step *step)
{
    for (const struct problem *problem = NULL; (problem = step_problem_after(step, problem));) {
        const void *rows = step_rows(step, problem);
        const struct kernel *kernel;
        ladder_loop(rows);
        for (size_t i = 0; (kernel = problem_kernel(problem, rows, i))->name; i++)
            if (ladder_counts(kernel) && ladder_runs(kernel))
                check_row(problem, kernel);
        ladder_loop_ends();
    }
}

CALL_TEST(step_01, claims, check_step(&step_01))
CALL_TEST(step_02, claims, check_step(&step_02))
CALL_TEST(step_03, claims, check_step(&step_03))
CALL_TEST(step_04, claims, check_step(&step_04))
CALL_TEST(step_05, claims, check_step(&step_05))
CALL_TEST(step_06, claims, check_step(&step_06))

/* A claim that cannot be read says so, and where. */
TEST(text, malformed)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"--m 8 --n 8", "has no colon after its options"},
        {"--rows 8: barriers <= 1", "'--rows' is no size of matmul"},
        {"--m -8: barriers <= 1", "--m does not take '-8'"},
        {"--m: barriers <= 1", "--m does not take ''"},
        {"--m 8: barriers < 1", "is no bound such as"},
        {"--m 8: barriers <= 1 2", "is no bound such as"},
        {"--m 8: barriers <= -1", "is no bound such as"},
        {"--m 8: barriers <= 1,", "is no bound such as"},
        {"--m 8: bariers <= 1", "nothing counts 'bariers'"},
        {"--m 8: barriers <= 99999999999999999999999", "is too large"},
        {"--m 8: barriers <= 1;", "has no colon"},
    };
    const struct kernel *row = find(&matmul_problem, "shared_tile");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct claims claims;
        struct kernel claimant = *row;
        claimant.claims = cases[i].text;
        cr_expect(!claims_parse(&matmul_problem, &claimant, &claims) &&
                      strstr(claims.complaint, cases[i].says) && claims.count == 0,
                  "'%s': '%s' does not say '%s'", cases[i].text, claims.complaint, cases[i].says);
    }
}

/* Groups have sizes of their own, and both relations mean what they say. */
TEST(text, groups)
{
    const void *rows = step_rows(&step_01, &matmul_problem);
    struct kernel claimant = *problem_kernel(&matmul_problem, rows, 0);
    struct claims claims;
    claimant.claims = "--m 32 --n 8 --k 3: global_loads <= 1536, global_loads >= 1537; "
                      "--m 1 --n 1 --k 5: global_loads >= 10, workspace_bytes <= 0";
    if (!ladder_counts(&claimant) || !ladder_runs(&claimant))
        return;
    cr_assert(
        claims_check(&matmul_problem, &claimant, problem_kernel(&matmul_problem, rows, 1), &claims),
        "%s", claims.complaint);
    cr_expect(claims.count == 4 && !claims.kept && claims.claim[0].kept && !claims.claim[1].kept &&
              claims.claim[2].kept && claims.claim[3].kept);
    cr_expect(claims.claim[1].value == 1536 && claims.claim[2].value == 10 &&
              strcmp(claims.claim[3].options, "--m 1 --n 1 --k 5") == 0);
}
