/* These functions read what the backend, its compiler and programs print. */
#ifndef SAID_H
#define SAID_H

#include "device/backend.h"
#include "tests/support/harness.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void expect_said(const char *text, const char *words)
{
    cr_expect_not_null(strstr(text, words), "'%s' is not in: %.2000s", words, text);
}

/* Reads `output` into `said`, and cuts off what is too long for it. */
static inline void read_all(FILE *output, char *said, size_t size)
{
    cr_assert_not_null(output);
    said[fread(said, 1, size - 1, output)] = '\0';
    while (fgetc(output) != EOF) {
    }
}

/* Runs the command and puts what it prints on both streams into `said`. Returns its exit status, or
 * -1. */
static inline int run_command(const char *command, char *said, size_t size)
{
    char both[4000];
    snprintf(both, sizeof both, "exec 2>&1; %s", command);
    FILE *output = popen(both, "r");
    read_all(output, said, size);
    const int status = pclose(output);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* On the host, following a device pointer ends the program, as it does with a GPU, but first the
 * place is reported. A child process follows it, and `said` gets what it prints. */
static inline void follow_on_host(int (*follow)(const int *data), const int *data, char *said,
                                  size_t size)
{
    int ends[2], status = 0;
    cr_assert_eq(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        _exit(follow(data) == 0 ? 1 : 2);
    }
    close(ends[1]);
    read_all(fdopen(ends[0], "r"), said, size);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "the program went on: status %d",
              status);
}

#endif
