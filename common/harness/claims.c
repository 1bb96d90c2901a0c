#include "claims.h"

#include "device/backend.h"
#include "refusal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char WORKSPACE[] = "workspace_bytes";

static const struct counter {
    const char *name;
    size_t offset;
} counters[] = {
#define COUNTER(name) {#name, offsetof(struct counters, name)},
    EACH_COUNTER(COUNTER)
#undef COUNTER
};

static const struct counter *find_counter(const char *name)
{
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        if (strcmp(counters[i].name, name) == 0)
            return &counters[i];
    return NULL;
}

static bool complain(struct claims *claims, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Leaves a complaint and no claims. */
static bool complain(struct claims *claims, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(claims->complaint, sizeof claims->complaint, format, arguments);
    va_end(arguments);
    claims->count = 0;
    claims->kept = false;
    return false;
}

/* Reads "barriers <= 8". */
static bool parse_bound(struct claims *claims, char *text, const struct claim *group)
{
    char name[64], relation[3], number[24], more;
    struct claim claim = *group;
    char *end = number;
    const bool parts =
        sscanf(text, " %63[a-z_] %2[<>=] %23[0-9] %c", name, relation, number, &more) == 3;
    if (!parts || (strcmp(relation, "<=") != 0 && strcmp(relation, ">=") != 0))
        return complain(claims, "'%s' is no bound such as 'barriers <= 8'", text);
    const struct counter *counter = find_counter(name);
    if (counter == NULL && strcmp(name, WORKSPACE) != 0)
        return complain(claims, "nothing counts '%s'", name);
    claim.what = counter ? counter->name : WORKSPACE;
    claim.at_most = relation[0] == '<';
    errno = 0;
    claim.bound = strtoull(number, &end, 10);
    if (errno || *end || claims->count == MAX_CLAIMS)
        return complain(claims, "there are more than %d bounds, or '%s' is too large", MAX_CLAIMS,
                        number);
    claims->claim[claims->count++] = claim;
    return true;
}

/* Reads the options and the bounds of one group. */
static bool parse_group(struct claims *claims, const struct problem *problem,
                        const struct kernel *kernel, char *text)
{
    struct claim group = {0};
    char *bounds = strchr(text, ':');
    if (bounds == NULL)
        return complain(claims, "'%s' has no colon after its options", text);
    *bounds++ = '\0';
    text += strspn(text, " ");
    if ((size_t)snprintf(group.options, sizeof group.options, "%s", text) >= sizeof group.options)
        return complain(claims, "'%s' is too long", text);
    case_default(problem, &group.at);
    if (!case_read(problem, text, &group.at))
        return complain(claims, "%s", refusal());
    if (!case_fits(problem, kernel, &group.at))
        return complain(claims, "%s does not take '%s'", kernel->name, text);
    for (char *bound; (bound = strsep(&bounds, ","));)
        if (!parse_bound(claims, bound, &group))
            return false;
    return true;
}

bool claims_parse(const struct problem *problem, const struct kernel *kernel, struct claims *claims)
{
    char text[1024], *rest = text;
    *claims = (struct claims){0};
    if (kernel->claims == NULL)
        return true;
    if ((size_t)snprintf(text, sizeof text, "%s", kernel->claims) >= sizeof text)
        return complain(claims, "the claims of %s are too long", kernel->name);
    for (char *group; (group = strsep(&rest, ";"));)
        if (!parse_group(claims, problem, kernel, group)) {
            char why[sizeof claims->complaint];
            memcpy(why, claims->complaint, sizeof why);
            return complain(claims, "the claims of %s: %.700s", kernel->name, why);
        }
    return true;
}

/* Runs the kernel at one group's sizes, which it makes those that the problem understands. */
static bool count(const struct problem *problem, const struct kernel *runs, struct claim *group,
                  struct claims *claims, struct counters *counted)
{
    struct trial trial;
    refusal_clear();
    const cudaError_t status = case_trial(&trial, problem, &group->at);
    if (status != cudaSuccess)
        return complain(claims, "%s at %s: %s", runs->name, group->options,
                        *refusal() ? refusal() : cudaGetErrorString(status));
    memcpy(group->at.sizes, trial.sizes, sizeof trial.sizes);
    backend_counters_reset();
    const struct verdict verdict = trial_run(&trial, runs);
    backend_counters(counted);
    const bool passed = verdict.status == VERDICT_PASS;
    if (!passed)
        complain(claims, "%s at %s: %s", runs->name, group->options, verdict.reason);
    trial_destroy(&trial);
    return passed;
}

static unsigned long long value_of(const char *what, const struct counters *counted,
                                   size_t workspace)
{
    const struct counter *counter = find_counter(what);
    const char *const first = (const char *)counted;
    return counter ? *(const unsigned long long *)(first + counter->offset) : workspace;
}

bool claims_check(const struct problem *problem, const struct kernel *claimant,
                  const struct kernel *runs, struct claims *claims)
{
    struct counters counted;
    size_t workspace = 0;
    if (!claims_parse(problem, claimant, claims)) {
        claims->refused = true;
        return false;
    }
    claims->refused = !backend_counters(&counted);
    if (claims->refused)
        return complain(claims,
                        "claims are checked where accesses are counted, not on this backend (%s)",
                        backend_name());
    claims->kept = true;
    for (int i = 0; i < claims->count; i++) {
        struct claim *claim = &claims->claim[i];
        if (i == 0 || strcmp(claim->options, claim[-1].options) != 0) {
            if (!count(problem, runs, claim, claims, &counted))
                return false;
            workspace = problem_workspace(problem, runs, claim->at.sizes);
        }
        claim->value = value_of(claim->what, &counted, workspace);
        claim->kept = claim->at_most ? claim->value <= claim->bound : claim->value >= claim->bound;
        claims->kept = claims->kept && claim->kept;
    }
    return true;
}
