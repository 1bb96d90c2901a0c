#include "sizes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 512 };

/* Returns the index of the size whose option this is, or -1. */
static int find(const struct size_option *options, const char *word)
{
    for (int i = 0; options[i].name; i++)
        if (strncmp(word, "--", 2) == 0 && strcmp(word + 2, options[i].name) == 0 &&
            !options[i].hidden)
            return i;
    return -1;
}

static bool parse_number(const struct size_option *option, const char *word, long long *value)
{
    char *end;
    errno = 0;
    *value = strtoll(word, &end, 10);
    return end != word && *end == '\0' && errno == 0 && *value >= option->minimum &&
           *value <= option->maximum;
}

static bool parse_choice(const struct size_option *option, const char *word, long long *value)
{
    for (int choice = 0; option->choices[choice]; choice++)
        if (strcmp(option->choices[choice], word) == 0) {
            *value = choice;
            return option->allowed >> choice & 1;
        }
    return false;
}

bool sizes_parse(const struct problem *problem, const void *table, const char *text,
                 long long sizes[MAX_SIZES], char *complaint, size_t room)
{
    struct size_option options[MAX_SIZES + 1] = {{0}};
    char words[MAX_TEXT], *rest = words;
    for (int i = 0; problem->sizes[i].name; i++)
        options[i] = problem->sizes[i];
    if (problem->narrow)
        problem->narrow(table, options);
    for (int i = 0; i < MAX_SIZES; i++)
        sizes[i] = options[i].watched;
    if ((size_t)snprintf(words, sizeof words, "%s", text) >= sizeof words) {
        snprintf(complaint, room, "'%.60s ...' is too long", text);
        return false;
    }
    for (const char *word; (word = strtok_r(rest, " ", &rest));) {
        const int size = find(options, word);
        if (size < 0) {
            snprintf(complaint, room, "'%s' is no size of %s", word, problem->name);
            return false;
        }
        if (options[size].flag) {
            sizes[size] = 1;
            continue;
        }
        const char *value = strtok_r(rest, " ", &rest);
        if (value == NULL || !(options[size].choices ? parse_choice : parse_number)(
                                 &options[size], value, &sizes[size])) {
            snprintf(complaint, room, "%s does not take '%s'", word, value ? value : "");
            return false;
        }
    }
    return true;
}
