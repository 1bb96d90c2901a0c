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
