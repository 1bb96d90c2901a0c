/* Changes from one stack to another. Only the calling convention's callee-saved registers are
 * saved, not the floating-point environment. */
#pragma once

#include <stdint.h>

extern "C" {

/* Says where a function left off that called simt_switch..., and what that call is to return. */
struct simt_context {
    void *stack;
    uint64_t value;
};

/* Leaves the caller's context in *from and goes on where the context `to` was left. */
uint64_t simt_switch(struct simt_context *from, const struct simt_context *to);

/* It does this, but begins function() on an unused stack below `top`, a multiple of 16. */
uint64_t simt_switch_to_new(struct simt_context *from, void *top, void (*function)());

/* Goes on where `context` was left. The caller's own context is lost, so this never returns. */
void simt_resume(const struct simt_context *context);
}
