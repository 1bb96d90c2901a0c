/* A runner is linked with this before and behind the objects of a submission, EDGE is begin and
 * end: what lies between are the submission's own variables, and the CPU backend lets its code
 * write no others (common/simt/check/access.cpp). Each has pages of its own. */
#define PASTE(a, b, c) a##b##c
#define NAME(edge, section) PASTE(simt_, edge, _of_##section)

_Alignas(4096) char NAME(EDGE, data)[4096] = {1};
_Alignas(4096) char NAME(EDGE, bss)[4096];
