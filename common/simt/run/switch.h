/*
 * Changing from one stack to another. Only what a function must keep for its caller is saved: the
 * callee-saved registers of the platform's calling convention, not the floating-point environment.
 */
#ifndef SIMT_SWITCH_H
#define SIMT_SWITCH_H

extern "C" {

/* Leaves the caller's context in *from and goes on where the context `to` was left. */
void simt_switch(void **from, void *to);

/* The same, but begins function() on an unused stack, which ends before the 16-byte aligned `top`.
 */
void simt_switch_to_new(void **from, void *top, void (*function)());

/* Goes on where `context` was left. The caller's own context is lost: never returns. */
void simt_resume(void *context);
}

#endif
