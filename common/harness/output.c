#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool output_is_open(void)
{
    if (fcntl(STDOUT_FILENO, F_GETFD) >= 0)
        return true;
    fprintf(stderr, "standard output is closed: there is nowhere to report to\n");
    return false;
}

static int report = -1; /* what standard output was */

void output_set_apart(void)
{
    if (report < 0 && (report = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
        dup2(STDERR_FILENO, STDOUT_FILENO);
}

void output_begin(void)
{
    if (report < 0)
        return;
    fflush(stdout); /* what a kernel left in the buffer */
    dup2(report, STDOUT_FILENO);
}

/* What cannot be written stays in the buffer, and must not go to stderr either. */
void output_end(void)
{
    if (fflush(stdout) == 0 && report >= 0)
        dup2(STDERR_FILENO, STDOUT_FILENO);
}

bool output_arrived(FILE *stream)
{
    /* errno is certain only when this flush failed: after an earlier error another call may have
     * changed it. */
    const bool flushed = fflush(stream) == 0;
    if (flushed && !ferror(stream))
        return true;
    fprintf(stderr, "the report could not be written%s%s\n", flushed ? "" : ": ",
            flushed ? "" : strerror(errno));
    return false;
}
