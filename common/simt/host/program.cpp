/* Tells a program what went wrong: simtcc asks the linker for simt_program, which pulls this in. */
#include "host/environment.h"
#include "host/errors.h"
#include <csignal>
#include <unistd.h>

using namespace simt;

/* A program that abort() or a fault ends is told, too. What follows the handler ends it. */
static void tell_and_end(int number)
{
    signal(number, SIG_DFL);
    tell_what_went_wrong();
}

__attribute__((constructor(102))) static void begin()
{
    failure_status = 86;
    for (int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE})
        signal(number, tell_and_end);
    std::string complaint;
    read_environment(&complaint);
    if (complaint.empty())
        return;
    fprintf(stderr, "simt: %s\n", complaint.c_str());
    if (const int status = read_exit_status(failure_status))
        _exit(status);
}

extern "C" void simt_program(void) {}
