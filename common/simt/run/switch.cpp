/* This is the assembly behind simt_switch(). Saved registers lie above a context's stack pointer.
 * All contexts continue by a jump, not by a return. A processor predicts a return from the calls it
 * has seen, and the last one was another thread's. It predicts a jump from where it came from. */

/* This surrounds a function's instructions. */
#define FUNCTION(name, ...)                                                                        \
    "    .p2align 4\n    .globl " name "\n    .type " name ", %function\n" name ":\n" __VA_ARGS__  \
    "    .size " name ", . - " name "\n"

#if defined(__x86_64__)

__asm__(R"(
    .text
    .macro save
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    .endm
    .macro resume from
    mov (\from), %rsp
    mov 8(\from), %rax
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    pop %rcx
    jmp *%rcx
    .endm
)" FUNCTION("simt_switch", R"(
    save
    resume %rsi
)") FUNCTION("simt_switch_to_new", R"(
    save
    mov %rsi, %rsp
    push $0             /* nothing called it: backtraces end here */
    xor %ebp, %ebp
    jmp *%rdx
)") FUNCTION("simt_resume", R"(
    resume %rdi
)"));

#elif defined(__aarch64__)

__asm__(R"(
    .text
    .macro save
    stp x29, x30, [sp, #-160]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    .endm
    .macro resume from
    ldp x9, x0, [\from]
    mov sp, x9
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #160
    br x30
    .endm
)" FUNCTION("simt_switch", R"(
    save
    resume x1
)") FUNCTION("simt_switch_to_new", R"(
    save
    mov sp, x1
    mov x29, #0         /* nothing called it: backtraces end here */
    mov x30, #0
    br x2
)") FUNCTION("simt_resume", R"(
    resume x0
)"));

#else
#error "The CPU backend runs on x86-64 and arm64"
#endif
