#include "cases.h"

#include "refusal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const case_level_names[CASE_LEVELS + 1] = {"first", "quick",  "usual",
                                                       "full",  "hidden", NULL};

/* A word is part of a text. */
struct word {
    const char *begin;
    size_t length;
};

static bool word_is(struct word word, const char *text)
{
    return strlen(text) == word.length && strncmp(word.begin, text, word.length) == 0;
}

static struct word next_word(const char **at)
{
    *at += strspn(*at, " ");
    const struct word word = {*at, strcspn(*at, " ;")};
    *at += word.length;
    return word;
}

/* Returns value `index` of "1,2,3", or the last where there are fewer. */
static struct word value_of(struct word values, int index)
{
    struct word value = {values.begin, 0};
    const char *const end = values.begin + values.length;
    for (;;) {
        const char *comma = memchr(value.begin, ',', (size_t)(end - value.begin));
        value.length = (size_t)((comma ? comma : end) - value.begin);
        if (index-- == 0 || !comma)
            return value;
        value.begin = comma + 1;
    }
}

static int count_values(struct word values)
{
    int count = 1;
    for (size_t i = 0; i < values.length; i++)
        count += values.begin[i] == ',';
    return count;
}

bool case_level_find(const char *name, enum case_level *level)
{
    for (int i = 0; i < CASE_LEVELS; i++)
        if (strcmp(case_level_names[i], name) == 0) {
            *level = (enum case_level)i;
            return true;
        }
    return false;
}

/* A draw says which number of a range is meant: the first, unless the case is a hidden one. */
struct draw {
    bool hidden;
    uint64_t seed, stream, drawn; /* so many numbers of this stream have been drawn */
};

static long long draw_below(struct draw *draw, long long count)
{
    return draw->hidden
               ? (long long)(input_bits(draw->seed, draw->stream, draw->drawn++) % (uint64_t)count)
               : 0;
}

/* Reads "33", or draws from "33..60" or "32..96/16". */
static bool read_number(struct word word, struct draw *draw, long long *number)
{
    const char *const end = word.begin + word.length;
    long long last, step = 1;
    char *at;
    *number = last = strtoll(word.begin, &at, 10);
    if (at == word.begin || at > end)
        return false;
    if (at < end && strncmp(at, "..", 2) == 0)
        last = strtoll(at + 2, &at, 10);
    if (at < end && *at == '/')
        step = strtoll(at + 1, &at, 10);
    if (at != end || last < *number || step < 1)
        return false;
    *number += draw_below(draw, (last - *number) / step + 1) * step;
    return true;
}

static bool not_taken(struct word name, struct word value)
{
    refuse(cudaErrorInvalidValue, "%.*s does not take '%.*s'", (int)name.length, name.begin,
           (int)value.length, value.begin);
    return false;
}

/* Finds an array of the problem by its name. Returns -1 where there is none. */
static int find_array(const struct problem *problem, const struct test_case *one, struct word name)
{
    long long sizes[MAX_SIZES];
    struct tensor tensors[MAX_TENSORS];
    int count = 0;
    memcpy(sizes, one->sizes, sizeof sizes);
    if (problem->tensors(sizes, tensors, &count) != cudaSuccess)
        return -1;
    for (int t = 0; t < count; t++)
        if (word_is(name, tensors[t].name))
            return t;
    return -1;
}

static bool read_size(const struct problem *problem, int index, struct word value,
                      struct draw *draw, struct test_case *one)
{
    const struct size_option *size = &problem->sizes[index];
    for (int choice = 0; size->choices && size->choices[choice]; choice++)
        if (word_is(value, size->choices[choice])) {
            one->sizes[index] = choice;
            return true;
        }
    const long long most = size->flag ? 1 : size->maximum;
    return read_number(value, draw, &one->sizes[index]) && one->sizes[index] >= size->minimum &&
           one->sizes[index] <= most;
}

/* Reads "3x5x7", the first sizes of the problem in their order. */
static bool read_sizes(const struct problem *problem, struct word value, struct draw *draw,
                       struct test_case *one)
{
    const char *const end = value.begin + value.length;
    for (int s = 0; problem->sizes[s].name; s++) {
        const char *x = memchr(value.begin, 'x', (size_t)(end - value.begin));
        if (!read_size(problem, s,
                       (struct word){value.begin, (size_t)((x ? x : end) - value.begin)}, draw,
                       one))
            return false;
        if (!x)
            return true;
        value.begin = x + 1;
    }
    return false;
}

/* Reads an option that is no size. *known becomes false where there is none of this name. */
static bool read_other(const struct problem *problem, struct word name, struct word value,
                       struct draw *draw, struct test_case *one, bool *known)
{
    long long number = 0;
    if (word_is(name, "--inputs")) {
        for (int kind = 0; kind < INPUT_KINDS; kind++)
            if (word_is(value, input_kind_name((enum input_kind)kind))) {
                one->inputs = (enum input_kind)kind;
                return true;
            }
        return false;
    }
    if (word_is(name, "--sizes"))
        return read_sizes(problem, value, draw, one);
    if (word_is(name, "--null"))
        return (one->placement.null_array = find_array(problem, one, value)) > 0;
    if (word_is(name, "--offset-of"))
        return (one->placement.offset_array = find_array(problem, one, value) + 1) > 0;
    const bool taken = read_number(value, draw, &number) && number >= 0;
    if (word_is(name, "--offset"))
        one->placement.offset = (size_t)number;
    else if (word_is(name, "--launches"))
        one->placement.launches = (int)number;
    else if (word_is(name, "--seed"))
        one->seed = (uint64_t)number;
    else
        *known = false;
    return taken;
}

/* Reads value `index` of every option. *count becomes the largest number of values. */
static bool read_options(const struct problem *problem, const char *options, int index,
                         struct draw *draw, struct test_case *one, int *count)
{
    *count = 1;
    for (struct word name; (name = next_word(&options)).length > 0;) {
        int size = 0;
        while (
            problem->sizes[size].name &&
            (strncmp(name.begin, "--", 2) != 0 ||
             !word_is((struct word){name.begin + 2, name.length - 2}, problem->sizes[size].name)))
            size++;
        const char *ahead = options;
        const struct word values = next_word(&ahead);
        const bool flag = problem->sizes[size].name && problem->sizes[size].flag &&
                          (values.length == 0 || values.begin[0] == '-');
        if (flag) {
            one->sizes[size] = 1;
            continue;
        }
        options = ahead;
        const bool each = word_is(name, "--inputs") && word_is(values, "all");
        const int values_here = each ? INPUT_KINDS : count_values(values);
        *count = values_here > *count ? values_here : *count;
        if (each) {
            one->inputs = (enum input_kind)(index < INPUT_KINDS ? index : INPUT_KINDS - 1);
            continue;
        }
        const struct word value = value_of(values, index);
        bool known = true;
        const bool taken = problem->sizes[size].name
                               ? read_size(problem, size, value, draw, one)
                               : read_other(problem, name, value, draw, one, &known);
        if (!known) {
            refuse(cudaErrorInvalidValue, "'%.*s' is no size of %s", (int)name.length, name.begin,
                   problem->name);
            return false;
        }
        if (!taken)
            return not_taken(name, value);
    }
    return true;
}

bool case_read(const struct problem *problem, const char *options, struct test_case *one)
{
    struct draw draw = {0};
    int count;
    return read_options(problem, options, 0, &draw, one, &count);
}

void case_default(const struct problem *problem, struct test_case *one)
{
    *one = (struct test_case){.seed = 1, .placement.launches = 1, .wrong = ""};
    for (int s = 0; problem->sizes[s].name; s++)
        one->sizes[s] = problem->sizes[s].watched;
}

void cases_begin(struct case_walk *walk, const struct problem *problem, const struct kernel *kernel,
                 enum case_level level, uint64_t seed)
{
    *walk = (struct case_walk){.problem = problem, .kernel = kernel, .level = level, .seed = seed};
}

/* Makes one of the kernel's own texts the list that is walked over. */
static void walk_over(struct case_walk *walk, enum case_level level, const char *options,
                      const char *wrong)
{
    walk->own[0] = (struct case_family){level, options, wrong};
    walk->own[1].options = NULL;
    walk->family = walk->own;
}

/* Goes on to the next family, which for a kernel's own texts follows a semicolon. */
static void next_family(struct case_walk *walk)
{
    const char *more = walk->family == walk->own ? strchr(walk->family->options, ';') : NULL;
    walk->index = 0;
    if (more)
        walk->own[0].options = more + 1;
    else
        walk->family++;
}

/* Goes on to the next list. Returns false after the last. */
static bool next_list(struct case_walk *walk)
{
    static const struct case_family nothing[] = {{.options = NULL}};
    walk->index = 0;
    switch (walk->stage++) {
    case 0:
        walk_over(walk, CASES_QUICK, walk->kernel ? walk->kernel->own_sizes : NULL,
                  "the kernel itself, where no other takes over");
        return true;
    case 1:
        walk_over(walk, CASES_USUAL, walk->kernel ? walk->kernel->edges : NULL,
                  "the kernel's own limits, just below and above");
        return true;
    case 2:
        walk->family = walk->problem->cases ? walk->problem->cases : nothing;
        return true;
    default:
        return false;
    }
}

/* Returns whether the walk's level takes the family. */
static bool taken(const struct case_walk *walk)
{
    const enum case_level level = walk->level == CASES_HIDDEN ? CASES_USUAL : walk->level;
    return walk->family->level <= level;
}

/* What a hidden case draws depends on the seed, the kernel and its family alone: no other case, and
 * no list that grows, moves it. */
static struct draw draw_of(const struct case_walk *walk)
{
    const char *const options = walk->family->options;
    uint64_t hash = 14695981039346656037U;
    for (const char *c = walk->kernel ? walk->kernel->name : ""; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211U;
    for (size_t i = 0; i < strcspn(options, ";"); i++)
        hash = (hash ^ (unsigned char)options[i]) * 1099511628211U;
    return (struct draw){walk->level == CASES_HIDDEN, walk->seed, hash, 0};
}

/* Reads the walk's case of its family, and goes on to the next: of a family that is drawn from
 * there is one. */
static bool read_case(struct case_walk *walk, struct test_case *one)
{
    struct draw draw = draw_of(walk), first = {0};
    int count;
    case_default(walk->problem, one);
    if (!read_options(walk->problem, walk->family->options, walk->index, &first, one, &count))
        return false;
    if (draw.hidden) {
        walk->index = (int)draw_below(&draw, count);
        case_default(walk->problem, one);
        read_options(walk->problem, walk->family->options, walk->index, &draw, one, &count);
        walk->index = count;
    }
    one->seed = draw.hidden ? input_bits(draw.seed, draw.stream, draw.drawn) >> 2 : walk->seed;
    one->wrong = walk->family->wrong;
    if (++walk->index >= count)
        next_family(walk);
    return true;
}

bool case_fits(const struct problem *problem, const struct kernel *kernel, struct test_case *one)
{
    return !(kernel->flushes_subnormals && one->inputs == INPUTS_SUBNORMAL) &&
           (!problem->fits || problem->fits(kernel, one->sizes, &one->placement.offset));
}

bool case_same(const struct test_case *a, const struct test_case *b)
{
    const struct placement *p = &a->placement, *q = &b->placement;
    return memcmp(a->sizes, b->sizes, sizeof a->sizes) == 0 && a->inputs == b->inputs &&
           a->seed == b->seed && p->offset == q->offset && p->offset_array == q->offset_array &&
           p->null_array == q->null_array && p->launches == q->launches;
}

/* What a kernel does not take may have become the case before. */
static bool repeats(struct case_walk *walk, const struct test_case *one)
{
    const bool same = case_same(&walk->last, one);
    walk->last = *one;
    return same;
}

bool cases_next(struct case_walk *walk, struct test_case *one)
{
    for (;;) {
        while (!walk->family || !walk->family->options)
            if (!next_list(walk))
                return false;
        if (!taken(walk)) {
            next_family(walk);
            continue;
        }
        walk->unreadable = !read_case(walk, one);
        if (walk->unreadable)
            return false;
        if ((!walk->kernel || case_fits(walk->problem, walk->kernel, one)) && !repeats(walk, one))
            return true;
    }
}

const char *case_options(const struct problem *problem, const struct test_case *one)
{
    static char text[400];
    size_t used = 0;
    struct tensor tensors[MAX_TENSORS];
    long long sizes[MAX_SIZES];
    int count = 0;
    text[0] = '\0';
#define ADD(...)                                                                                   \
    used += (size_t)snprintf(text + used, used < sizeof text ? sizeof text - used : 0, __VA_ARGS__)
    for (int s = 0; problem->sizes[s].name; s++) {
        const struct size_option *size = &problem->sizes[s];
        const long long value = one->sizes[s];
        if (value == size->watched && (size->flag || size->choices || value == 0))
            continue;
        if (size->flag)
            ADD(" --%s", size->name);
        else if (size->choices)
            ADD(" --%s %s", size->name, size->choices[value]);
        else
            ADD(" --%s %lld", size->name, value);
    }
    if (one->inputs != INPUTS_NORMAL)
        ADD(" --inputs %s", input_kind_name(one->inputs));
    if (one->placement.offset > 0)
        ADD(" --offset %zu", one->placement.offset);
    memcpy(sizes, one->sizes, sizeof sizes);
    if (problem->tensors(sizes, tensors, &count) == cudaSuccess) {
        if (one->placement.offset_array > 0)
            ADD(" --offset-of %s", tensors[one->placement.offset_array - 1].name);
        if (one->placement.null_array > 0)
            ADD(" --null %s", tensors[one->placement.null_array].name);
    }
    if (one->placement.launches > 1)
        ADD(" --launches %d", one->placement.launches);
    if (one->seed != 1)
        ADD(" --seed %llu", (unsigned long long)one->seed);
#undef ADD
    return text + (used > 0);
}

cudaError_t case_trial(struct trial *trial, const struct problem *problem,
                       const struct test_case *one)
{
    return trial_create_placed(trial, problem, one->sizes, one->inputs, one->seed, &one->placement);
}
