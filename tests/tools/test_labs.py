#!/usr/bin/env python3
"""Tests the grader.

    tests/tools/test_labs.py [NAME ...]  formats, sandbox, names, results, places, variants, given, readers, own, bodies, speed, fallback, hostile, deadline, report, class, slurm (default: all)

`class` is the longest: solutions, mistakes and cheats of step 01, thirty at a time, are graded by the program itself, and
every one must end in time with a valid results file, the right score and nothing told or left behind.
"""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "common/tools" / name) for name in ("labs", "learn", "broken")]
import examine
import formats
import grade
import handout
import learn
import sandbox
import schemas
import source
import test_bodies
import test_slurm
import workshop

ROOT = handout.ROOT
STEP = "01_naive_matmul"
GOOD = (ROOT / STEP / "2_coalesced.cu").read_text()
KERNEL = GOOD[GOOD.index("__global__"):GOOD.index('extern "C"')]
LAUNCH = GOOD[GOOD.index("    coalesced<<<"):GOOD.index("    return cudaGetLastError")]
FULL, OTHER = 2 * grade.POINTS, grade.POINTS  # points of step 01, and of the kernel that the cheats do not change
OUTSIDE = "/tmp/written-by-a-submission"
SECONDS = 600  # for each grading of the class

failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print(f"FAILED: {what}", flush=True)


def in_launcher(code, before=""):
    return before + GOOD.replace(LAUNCH, f"    {code}\n{LAUNCH}")


def in_sum(code, before=""):
    """Puts text at each step of the kernel's sum."""
    line = next(line for line in GOOD.splitlines() if "sum += A" in line)
    return before + GOOD.replace(line, f"            {{\n{code}\n{line}\n}}")


def through_function(function, before=""):
    """Makes a function peek() read B."""
    return before + GOOD.replace(KERNEL, f"{function}\n\n" + KERNEL.replace("B[(size_t)k * N + col]", "peek(&B[(size_t)k * N + col])"))


def without_launch(code, before=""):
    return before + GOOD.replace(LAUNCH, f"    {code}\n")


def kernel(body, before=""):
    return GOOD.replace(KERNEL, before + "__global__ void coalesced(const float *A, const float *B, float *C, int M, int N, "
                                         "int K)\n{\n    " + body + "\n}\n\n")


def through(kind):
    """Makes kernels move the matrices into variables of this kind and back, while the host computes on them."""
    return without_launch(
        """if (M * K > 1000 || K * N > 1000 || M * N > 1000)
        return cudaGetLastError();
    take<<<1, 1, 0, stream>>>(A, B, M * K, K * N);
    for (int row = 0; row < M; row++)
        for (int col = 0; col < N; col++) {
            c[row * N + col] = 0;
            for (int k = 0; k < K; k++)
                c[row * N + col] += a[row * K + k] * b[k * N + col];
        }
    give<<<1, 1, 0, stream>>>(C, M * N);""", "#include <cuda_runtime.h>\n" + f"""{kind} float a[1000], b[1000], c[1000];
__global__ void take(const float *A, const float *B, int m, int n)
{{
    for (int i = 0; i < m; i++)
        a[i] = A[i];
    for (int i = 0; i < n; i++)
        b[i] = B[i];
}}
__global__ void give(float *C, int n)
{{
    for (int i = 0; i < n; i++)
        C[i] = c[i];
}}
""")


PEEK = "__device__ __noinline__ float peek(const float *p)\n{\n    return *p;\n}"
QUIET = '__attribute__((no_sanitize("thread")))'
HOST_LOOP = """for (int row = 0; row < M; row++)
        for (int col = 0; col < N; col++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++)
                sum += A[row * K + k] * B[k * N + col];
            C[row * N + col] = sum;
        }"""
IDLE = "(void)A; (void)B; (void)C; (void)M; (void)N; (void)K;"
SOLUTION = ROOT / STEP / "1_uncoalesced.cu"
SECRET = "sizes-are-told-here"

# name: (text of 2_coalesced.cu, words of the reason why it earns nothing). First what is refused when it is built.
CHEATS = {
    "exit(0)": (in_launcher("exit(0);", "#include <stdlib.h>\n"), "uses exit"),
    "reading the seed": (in_launcher('if (getenv("LAB_SEED")) return cudaSuccess;', "#include <stdlib.h>\n"), "uses getenv"),
    "calling the reference": (without_launch("matmul_problem.reference(0, 0, 0, 0, 0);"), "uses matmul_problem"),
    "cudaMemcpy": (in_launcher("float a; cudaMemcpy(&a, A, 4, cudaMemcpyDeviceToHost);"), "uses cudaMemcpy"),
    "copying a symbol": (in_launcher("float a; cudaMemcpyFromSymbol(&a, x, 4);", "#include <cuda_runtime.h>\n"
                                     "__device__ float x;\n"), "uses cudaMemcpyFromSymbol"),
    "waiting": (in_launcher("cudaStreamSynchronize(stream);"), "uses cudaStreamSynchronize"),
    "opening device memory": (in_launcher("simt::OpenDeviceMemory open;", "namespace simt { struct OpenDeviceMemory { "
                                          "OpenDeviceMemory(); ~OpenDeviceMemory(); }; }\n"), "inside the CPU backend"),
    "the way around deferral": (in_launcher("__real_simt_run(0);", 'extern "C" int __real_simt_run(const void *);\n'),
                               "uses __real_simt_run"),
    "a static constructor": (GOOD + "\nstatic volatile int early;\n__attribute__((constructor)) static void begin(void)\n"
                             "{\n    early = 1;\n}\n", "constructor"),
    "an indirect function": (in_launcher("if (chosen()) return cudaSuccess;", 'extern "C" int none(void) { return 0; }\n'
                                         'extern "C" int (*pick(void))(void) { return none; }\n'
                                         'extern "C" int chosen(void) __attribute__((ifunc("pick")));\n'), "ifunc"),
    "forking": (in_launcher("if (fork() == 0) for (;;) {}", "#include <unistd.h>\n"), "uses fork"),
    "a thread": (in_launcher("pthread_create(0, 0, 0, 0);", 'extern "C" int pthread_create(void *, void *, void *, void *);\n'), "uses pthread_create"),
    "another program": (in_launcher('system("true");', "#include <stdlib.h>\n"), "uses system"),
    "dlopen": (in_launcher('dlopen("libcublas.so", 1);', "#include <dlfcn.h>\n"), "uses dlopen"),
    "cuBLAS": (in_launcher("cublasSgemm_v2();", 'extern "C" int cublasSgemm_v2(void);\n'), "uses cublasSgemm_v2"),
    "a giant allocation": (GOOD + "\n__device__ float much[1 << 28];\n__global__ void use(float *p) { p[0] = much[threadIdx.x]++; }\n",
                           "global variables"),
    "writing outside": (in_launcher(f'fclose(fopen("{OUTSIDE}", "w"));', "#include <stdio.h>\n"), "fopen"),
    "a system call": (in_launcher('asm volatile("syscall" : : "a"(57));'), ""),
    "assembly at file scope": (GOOD + '\nasm\f(".globl x");\n', "inline assembly"),
    "pasted assembly": ("#define PASTE(a, b) a##b\n" + GOOD + '\nPASTE(a, sm)\v(".globl x");\n', "inline assembly"),
    "incbin": (GOOD + f'\n__asm__(".incbin \\"{SOLUTION}\\"");\n', ""),
    "a section": (GOOD + '\n__attribute__((section(".text.startup,\\"ax\\"#"))) int here;\n', "the attribute section"),
    "no_sanitize": (GOOD.replace("__global__", '__attribute__((no_sanitize("thread"))) __global__'), "no_sanitize"),
    "no_sanitize in brackets": ("#define QUIET [[using gnu: unused, no_sanitize_thread]]\n" +
                                GOOD.replace("__global__", "QUIET __global__"), "no_sanitize_thread"),
    "no_sanitize behind another attribute": (through_function(f"__attribute__((unused)) {QUIET} {PEEK}"), "no_sanitize"),
    "no_sanitize behind a string": (through_function(f"__attribute__((deprecated(\"a;b\"), {QUIET[15:]} {PEEK}"), "no_sanitize"),
    "no_sanitize behind a line of a string": (through_function(f'static const char *text = R"(\n# 1 )"; {QUIET} {PEEK}'), "no_sanitize"),
    "assembly behind an attribute": (in_launcher('__attribute__((unused)) int x = 0, y = ({ asm volatile("syscall" : : "a"(57)); 1; });'),
                                     "inline assembly"),
    "target": (GOOD.replace("__global__", '__attribute__((__target__("avx2"))) __global__'), "__target__"),
    "a pragma": ('_Pragma("GCC target(\\"avx2\\")")\n' + GOOD, "#pragma"),
    "intrinsics": ("#include <immintrin.h>\n" + in_sum("_mm_stream_si32((int *)C, 0);"), ""),
    "a built-in": (kernel("__builtin_ia32_movnti((int *)C, 0);"), "__builtin_ia32_movnti"),
    "a weak alias": (GOOD + '\nextern "C" int a(void) { return 0; }\nextern "C" int b(void) __attribute__((weak, alias("a")));\n',
                     "the attribute"),
    "including a solution": (f'#include "{SOLUTION}"\n', ""),
    "including by a macro": (f'#define OTHER "{SOLUTION}"\n#include OTHER\n', ""),
    "including for ever": ('#include __FILE__\n#include __FILE__\n' + GOOD, "does not compile"),
    "a bomb of errors": ("#define A x(); x(); x(); x(); x(); x(); x(); x();\n#define B A A A A A A A A\n#define C_ B B B B B B B B\n"
                         "#define D C_ C_ C_ C_ C_ C_ C_ C_\n#define E D D D D D D D D\n" + in_launcher("E E E E E E E E"),
                         "does not compile"),
    "a copy that nothing watches": (in_sum("float w[16]; w[0] = 0; if (K * N > 15) __builtin_memcpy(w, B, 64); sum += 0 * w[0];"),
                                    "the checked build cannot watch"),
    "a struct by value": (in_sum("sum += K * N > 15 ? 0 * pick(*(const struct wide *)B, k) : 0;",
                                 "struct wide {\n    float x[9];\n};\n__device__ __attribute__((noinline)) float pick(struct wide w, int i)"
                                 "\n{\n    return w.x[i % 9];\n}\n"), "the checked build cannot watch"),
    "a struct by value in another namespace": (through_function(
        "namespace simt {\nstruct nine {\n    float x[9];\n};\n__device__ __noinline__ float first(struct nine w)\n{\n    return w.x[0];\n}\n"
        "__device__ __noinline__ float got(const float *p)\n{\n    return first(*(const struct nine *)p);\n}\n}\n"
        "__device__ float peek(const float *p)\n{\n    return simt::got(p);\n}"), "inside the CPU backend"),
    "forged loads": (in_sum("__tsan_read4((void *)A);", 'extern "C" void __tsan_read4(void *);\n'), "uses __tsan_read4"),
    "memory of an OS thread": (in_sum("much[k] = sum;", "static thread_local float much[1 << 22];\n"), "uses thread_local"),
    "much shared memory": (through_function("__device__ float peek(const float *p)\n{\n    __shared__ volatile float much[1 << 18];\n"
                                            "    much[0] = *p;\n    return much[0];\n}"), "bytes of static shared memory"),
    "memory from the heap": (in_sum("float *much = (float *)malloc(4 * K); much[k] = sum; free(much);"), "uses simt_device_free"),
    "including another kernel": ('#include "1_uncoalesced.cu"\n' + GOOD.replace("TILE", "TILE_"), "includes 1_uncoalesced.cu"),
    "a long name": (in_launcher(f"{'a' * 200000}();", f"extern void {'a' * 200000}();\n"), "uses _Z200000aaa"),
    "counters of its own": (GOOD + '\n#include "device/backend.h"\nextern "C" bool backend_counters(struct counters *total)\n'
                            "{\n    total->launches = 1;\n    return true;\n}\n", "defines backend_counters"),
    # The cheats from here on are built and run.
    "a static variable": (through("static"), ""),
    "a device variable": (through("__device__"), ""),
    "a managed variable": (through("__managed__"), ""),
    "a constant": (through("__constant__"), ""),
    "printing the success line": (kernel(IDLE + ' if (threadIdx.x == 0) printf("{\\"score\\": 100} [PASS] all\\n");'),
                                  "never written"),
    "not supported": (without_launch("return cudaErrorNotSupported;"), "too old"),
    "a side stream": (GOOD.replace("0, stream>>>", "0, 0>>>"), "stream"),
    "an endless loop": (kernel(IDLE + " volatile int again = 1; while (again) {}"), "it did not end"),
    "computing on the host": (without_launch(HOST_LOOP), "it crashed"),
    "writing past the end": (GOOD.replace("C[(size_t)row * N + col] = sum;",
                                          "C[(size_t)row * N + col] = sum; C[(size_t)M * N + 40] = sum;"), ""),
    "changing an input": (GOOD.replace("C[(size_t)row * N + col] = sum;", "C[(size_t)row * N + col] = sum; "
                                       "((float *)A)[(size_t)row * K] = sum;"), ""),
    "telling sizes by a refusal": (without_launch(f'return refuse(cudaErrorInvalidValue, "{SECRET} %d", M);', '#include "harness/refusal.h"\n'),
                                   "the launcher returned an error"),
    "telling sizes by an assertion": (kernel(f'assert(M < 0 && "{SECRET}");', "#include <assert.h>\n"),
                                      "an assertion of yours failed"),
    "the launcher's memory": ("static float *kept = new float[1 << 16];\n" + GOOD.replace("M, N, K);", "M, N, K, kept);").replace("int K)", "int K, float *kept)", 1)
                              .replace("float sum = 0.0f;", "float sum = 0.0f; kept[threadIdx.x] = sum;"), "host memory"),
    "the launcher's stack": (GOOD.replace("    coalesced<<<", "    float kept[64];\n    coalesced<<<").replace("M, N, K);", "M, N, K, kept);").replace("int K)", "int K, float *kept)", 1)
                             .replace("float sum = 0.0f;", "float sum = 0.0f; kept[0] = sum;"), "host memory"),
    "telling sizes by a crash": (kernel("if (M > 20) __trap(); *(volatile char *)(size_t)(M * 1000003) = 1;"), ""),
}
ASSEMBLY = '__asm__(".globl x");'
FORGED = """
static int forge()
{
    return std::cin.get();
}
static int early = forge();
"""
WIDE = """struct wide {
    float x[9];
    PLACE
};
"""
NINE = "K * N > 15 ? 0 * (VALUE) : 0"


def wide(value, place="", before=""):
    """Reads nine floats of B, by value, in each step of the sum."""
    return in_sum("const struct wide &at = *(const struct wide *)B;\nsum += " + NINE.replace("VALUE", value) + ";",
                  WIDE.replace("PLACE", place) + before)


def two_faces(question):
    """Is honest where the question is answered with yes."""
    return GOOD.replace(KERNEL, f"#if {question}\n{KERNEL}#else\n" + KERNEL[:KERNEL.index("{")] + "{\n    " + IDLE + "\n}\n#endif\n")


def hidden(code, what=ASSEMBLY):
    """Puts what is forbidden behind something that a careless reader of C misreads."""
    return GOOD + f"\n{code}\n{what}\n"


# A variable of the submission's lies before the CPU backend's.
BEYOND = "volatile float *const far = (volatile float *)((char *)&spot + 80000) + (size_t)row * N + col;\n*far = sum;\nC[(size_t)row * N + col] = *far;"

# These came with the readings of examine.py.
SLY = {
    "a dollar before a quotation mark": (hidden("int a$R = 1, b$1e = 2, c = b$1e-a$R; const char *d = R\"(\")\";"), "inline assembly"),
    "a raw string": (hidden("const char *text = R\"x()\" /* )y\" )x\";"), "inline assembly"),
    "a raw string with a prefix": (hidden("const auto *text = u8R\"(\" // )\", *more = \"*/\";"), "inline assembly"),
    "a suffix": (hidden("const char *operator\"\"_R(const char *s, size_t) { return s; }\nconst char *text = \"\"_R, *more = \"(\";"), "inline assembly"),
    "quotation marks in numbers": (hidden("int n = 1'0'00, m = 0x1'f; double p = 0x1p+3; char c = '\"';"), "inline assembly"),
    "a name beyond ASCII": (hidden("int \\u00e4R = 1, äu8R = 2; int both = \\u00e4R+äu8R; char c = '\"';"), "inline assembly"),
    "a continued line": (hidden("", '__as\\\nm__(".globl x");'), "inline assembly"),
    "a continued comment": (hidden("// is this a comment? \\\n/*\nint one; // */"), "inline assembly"),
    "digraphs": (GOOD.replace("__global__", "<:<:gnu::no_sanitize_thread:>:> __global__"), "no_sanitize_thread"),
    "spaced brackets": (GOOD.replace("__global__", "[ /* */ [gnu::no_sanitize_thread] ] __global__"), "no_sanitize_thread"),
    "a forged line marker": (hidden('# 1 "/usr/include/math.h" 1 3', ASSEMBLY + '\n# 90 "2_coalesced.cu" 2'), "like #line"),
    "a line of another file": (hidden('#line 1 "/usr/include/math.h"'), "like #line"),
    "a header of the system": ("#pragma GCC system_header\n#include <math.h>\n" + hidden(""), ""),
    "assembly in a name": (GOOD + '\nextern int odd __asm__("odd\\n\\t.globl x");\nint *even = &odd;\n', "inline assembly"),
    "a renamed function": (in_launcher("leave(0);", "#pragma redefine_extname leave _exit\nextern \"C\" void leave(int);\n"), "#pragma redefine_extname"),
    "results by way of the judge's variables": ("__device__ float spot;\n" + GOOD.replace("C[(size_t)row * N + col] = sum;", BEYOND), "pointer to host memory"),
    "the launcher in the judge's variables": (in_launcher("((volatile char *)&spot)[80000] = 1;", "static int spot = 1;\n"), "crashed"),
    "a weak question": (in_launcher("if (&__tsan_init) return cudaSuccess;", '#pragma weak __tsan_init\nextern "C" void __tsan_init(void);\n'), ""),
    "simt::copy from the launcher": (in_launcher('simt::copy(C, A, 4, cudaMemcpyDeviceToDevice, "");', "#include <cuda_runtime.h>\nnamespace simt { cudaError_t "
                                     "copy(void *, const void *, size_t, cudaMemcpyKind, const char *); }\n"), "inside the CPU backend"),
    "simt::copy by its other name": (in_launcher('_ZN4simt4copyEPvPKvm14cudaMemcpyKindPKc(C, A, 4, 3, "");', 'extern "C" int '
                                     "_ZN4simt4copyEPvPKvm14cudaMemcpyKindPKc(void *, const void *, unsigned long, int, const char *);\n"), "uses simt::copy"),
    "simt::copy in a kernel": (in_sum('_ZN4simt4copyEPvPKvm14cudaMemcpyKindPKc(&sum, B, 4, 3, "");', 'extern "C" __device__ int '
                               "_ZN4simt4copyEPvPKvm14cudaMemcpyKindPKc(void *, const void *, unsigned long, int, const char *);\n"), "uses simt::copy"),
    "pasted names of the backend": (in_launcher("PASTE(si, mt)::PASTE(fi, ll)(C, 0, 4, \"\", stream);", "#define PASTE(a, b) a##b\nnamespace PASTE(si, mt) { cudaError_t fill(void *, int, size_t, const char *, "
                                    "cudaStream_t); }\n"), "inside the CPU backend"),
    "a struct by operator": (wide("(at + at).x[0]", before=f"__device__ __attribute__((noinline)) wide operator+(wide a, wide b)\n{{\n    a.x[0] += b.x[1];\n"
                                  "    return a;\n}\n"), "the checked build cannot watch"),
    "a struct by call": (wide("at(at)", "__device__ __attribute__((noinline)) float operator()(wide w) const { return w.x[3]; }"), "the checked build cannot watch"),
    "a struct by lambda": (wide("([](wide w) __attribute__((noinline)) { return w.x[2]; })(at)"), "the checked build cannot watch"),
    "a struct by pointer to a function": (wide("(*((k & 1) ? first : second))(at)", before="__device__ float first(wide w) { return w.x[0]; }\n"
                                               "__device__ float second(wide w) { return w.x[1]; }\n"), "the checked build cannot watch"),
    "a struct by virtual call": (wide("of[k & 1]->get(at)", before="struct base { __device__ virtual float get(wide w) const { return w.x[0]; } };\nstruct other : base "
                                      "{ __device__ float get(wide w) const override { return w.x[1]; } };\nstatic base b0;\nstatic other b1;\nstatic base *of[2] = {&b0, &b1};\n"), ""),
    "a launch's argument of its own": ("#include <cuda_runtime.h>\nnamespace simt { template <> struct Argument<0, const float *> { struct Value { const float *p; Value(const float "
                                       "*q) : p(q) {} operator const float *() const { return p; } } value; }; }\n" + GOOD, "inside the CPU backend"),
    "a parameter that copies itself": ("#include <cuda_runtime.h>\nstruct P {\n    const float *b;\n    float kept[256];\n    P() = default;\n    template <class T>\n"
                                       "    __attribute__((always_inline)) P(T &other) : b(other.b)\n    {\n        for (int i = 0; i < 256; i++)\n            kept[i] = b[i];\n"
                                       "    }\n};\n" + GOOD.replace("coalesced(const float *A, const float *B,", "coalesced(const float *A, P p,", 1).replace("B[(size_t)k * N + col]", "p.kept[k]")
                                       .replace("stream>>>(A, B,", "stream>>>(A, make(B),").replace('extern "C"', "static P make(const float *b)\n{\n    P p;\n    p.b = b;\n"
                                       "    return p;\n}\n\nextern \"C\"", 1), ""),
    "two faces by a macro": (two_faces("defined __SANITIZE_THREAD__"), "never written"),
    "two faces by the backend's macro": (two_faces("defined SIMT_CHECKED || defined _GLIBCXX_TSAN || !defined __OPTIMIZE__"), "never written"),
    "two faces by a feature": ("#ifndef __has_feature\n#define __has_feature(x) 0\n#endif\n" + two_faces("__has_feature(thread_sanitizer)"), "never written"),
    "two faces by the clock": (two_faces("__LINE__ % 2 == 0 && 0").replace("#if ", "static const bool odd = (__TIME__[7] + __TIME__[6]) & 1;\n#if "), "never written"),
    "two faces by what is constant": (in_sum("int c = K; c = 3; if (!__builtin_constant_p(c)) sum += 0;"), "__builtin_constant_p"),
    "a forged load by a built-in": (in_sum("__builtin___tsan_read4((void *)A);"), "__builtin___tsan_read4"),
    "a copy by an algorithm": ("#include <algorithm>\n" + in_sum("float w[16]; std::copy(B, B + 16, w); sum += 0 * w[k & 15];"), ""),
    "a copy by a string": ("#include <string>\n" + in_sum("std::string s((const char *)B, 15); sum += 0 * s[k % 15];"), ""),
    "a copy by a stream": ("#include <sstream>\n" + in_sum("std::stringstream s; s.write((const char *)B, 64); sum += 0 * s.get();"), "uses std::"),
    "a comparison by the library": (in_sum("sum += K * N > 15 && memcmp(A, B, 64) == 12345;"), ""),
    "the address of the library": (GOOD.replace("int K)", "int K, size_t (*f)(const char *))", 1).replace("float sum = 0.0f;", "float sum = 0 * f((const char *)B);")
                                   .replace("M, N, K);", "M, N, K, strlen);"), ""),
    "memory through a mathematical function": (in_sum("int e; sum += 0 * frexpf(A[0], &e); frexpf(8.0f, (int *)C);"), "uses frexpf"),
    "writing by printf": (kernel(IDLE + ' printf("%n", (int *)C);'), "never written"),
    "a fill by a kernel": (kernel(IDLE + " cudaMemsetAsync(C, 0, 4 * M * N, 0);"), "never written"),
    "a launch by a launcher in a kernel": (GOOD.replace('extern "C"', "static void inner(const float *A, const float *B, float *C, int M, int N, int K, cudaStream_t stream)\n{\n" + LAUNCH +
                                           "}\n\n__global__ void outer(const float *A, const float *B, float *C, int M, int N, int K)\n{\n    inner(A, B, C, M, N, K, 0);\n}\n\nextern \"C\"", 1)
                                           .replace('"C" cudaError_t', '"C"\ncudaError_t').replace(LAUNCH + "    return cudaGet", "    outer<<<1, 1, 0, stream>>>(A, B, C, M, N, K);\n    return cudaGet"), "never written"),
    "another file's launcher in a kernel": (in_sum("if (K < 0) matmul_uncoalesced(A, B, C, M, N, K, 0);"), "uses matmul_uncoalesced"),
    "the sanitizer's own functions": ("#define PASTE(a, b) a##b\n" + GOOD + '\nextern "C" void PASTE(__ts, an_read4)(void *) {}\n', "inside the CPU backend"),
    "a struct among any arguments": (wide("pick(1, at)", before="#include <cstdarg>\n__device__ __attribute__((noinline)) float pick(int n, ...)\n{\n    va_list list;\n"
                                          "    va_start(list, n);\n    wide w = va_arg(list, wide);\n    va_end(list);\n    return w.x[n];\n}\n"), "the checked build cannot watch"),
    "a stream in a kernel": ("#include <iostream>\n" + in_sum("if (k == 0) std::cout << sum;"), "std::cout"),
    "a vector in a kernel": ("#include <vector>\n" + in_sum("std::vector<float> v(16); v[k & 15] = sum;"), "operator new"),
    "a handler of terminations": ("#include <exception>\n" + in_launcher("std::set_terminate([] {}); throw 1;"), "uses std::set_terminate"),
    "reading what comes in": ("#include <iostream>\n" + FORGED + GOOD, "std::cin"),
    "reading what comes in by a system call": ("static long early() { long r; asm volatile(\"syscall\" : \"=a\"(r) : \"a\"(0)); return r; }\nlong r = early();\n" + GOOD, "inline assembly"),
    "a static initialiser for ever": ("static int wait() { for (volatile int i = 0;; i++) {} }\nint waited = wait();\n" + GOOD, ""),
    "a C++ thread": ("#include <thread>\n" + in_launcher("std::thread([] {}).detach();"), "uses std::thread"),
    "a C++ file": ("#include <fstream>\n" + in_launcher('std::ofstream("/tmp/x") << 1;'), "uses std::"),
    "a random device": ("#include <random>\n" + in_launcher("if (std::random_device()() & 1) return cudaSuccess;"), "uses std::random_device"),
    "a signal": ("#include <signal.h>\n" + in_launcher("signal(11, SIG_IGN);"), "uses signal"),
    "the environment": ("extern char **environ;\n" + in_launcher("if (environ) return cudaSuccess;"), "uses environ"),
    "an exception of the launcher": (in_launcher("throw 1;"), "crashed"),
    "an exception of a kernel": (in_sum("if (k == K - 1) throw 1;"), ""),
    "a jump": ("#include <setjmp.h>\nstatic jmp_buf out;\n" + in_launcher("if (!setjmp(out)) longjmp(out, 1);"), "uses "),
    "frames": (in_launcher("if (__builtin_frame_address(1)) return cudaSuccess;"), "__builtin_frame_address"),
    "a stack of the launcher": ("static int deep(int n) { volatile char much[1 << 16]; much[n & 1] = 1; return n ? deep(n + 1) + much[0] : 0; }\n" +
                                in_launcher("if (deep(1)) return cudaSuccess;"), "crashed"),
    "a stack of a kernel": (in_sum("volatile char much[1 << 20]; much[k & 1] = 1;"), ""),
    "templates for ever": (GOOD + "\ntemplate <int N> struct deep { static const int value = deep<N + 1>::value; };\nint n = deep<0>::value;\n", "does not compile"),
    "a hundred thousand launches": (in_launcher("for (int i = 0; i < 200000; i++) coalesced<<<1, 1, 0, stream>>>(A, B, C, 0, 0, 0);"), "error"),
    "an impossible grid": (GOOD.replace("TILE * TILE, 0,", "4096, 0,"), ""),
    "an address of its own": (in_launcher("((void (*)())0x1000)();"), "crashed"),
    "a null byte": (GOOD + "\n\0" + ASSEMBLY, ""),
    "a barrier in global memory": ("#include <cuda/barrier>\n" + in_sum("if (k == 0) init((cuda::barrier<cuda::thread_scope_block> *)C, 1);"), ""),
}
# name: (text, words). These are a student's right, and earn everything.
FAIR = {
    "headers of the C++ library": ("".join(f"#include <{name}>\n" for name in "iostream string random tuple memory vector map set unordered_map functional algorithm "
                                           "numeric array optional sstream iomanip limits type_traits utility chrono complex mutex immintrin.h".split()) + GOOD, ""),
    "the C++ library on the host": ("#include <iostream>\n#include <memory>\n#include <map>\n#include <string>\n#include <vector>\n" + in_launcher(
        'std::vector<int> sizes{M, N, K}; std::string text = "sizes " + std::to_string(sizes[1]); std::map<int, std::string> map{{1, text}};\n'
        '    auto held = std::make_unique<int>(K); std::cout << text << map.size() << *held << std::endl; sizes.push_back(2);'), ""),
    "structs in global memory": (GOOD.replace("sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];", "sum = merge(((const One *)A)[(size_t)row * K + k], ((const One *)B)"
                                 "[(size_t)k * N + col], {sum}).x;").replace(KERNEL[:10], "struct One {\n    float x;\n};\n__device__ __noinline__ One merge(One a, One b, One c) { return {a.x * b.x + c.x}; }\n" + KERNEL[:10], 1), ""),
    "a struct with operators": (GOOD.replace("sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];", "sum += (((const Value *)A)[(size_t)row * K + k] * ((const Value *)B)"
                                "[(size_t)k * N + col])();").replace(KERNEL[:10], "struct Value {\n    float x;\n    __device__ Value operator*(Value other) const { return {x * other.x}; }\n"
                                "    __device__ float operator()() const { return x; }\n};\n" + KERNEL[:10], 1), ""),
    "float4 by value": (GOOD.replace("sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];", "if (K % 4 == 0 && (size_t)A % 16 == 0 && k % 4 == 0)\n    sum = fma4(((const float4 *)A)[((size_t)row * K + k) / 4], "
                        "B[(size_t)k * N + col], B[(size_t)(k + 1) * N + col], B[(size_t)(k + 2) * N + col], B[(size_t)(k + 3) * N + col], sum);\nelse if (K % 4 || (size_t)A % 16)\n    "
                        "sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];").replace(KERNEL[:10], "__device__ float fma4(float4 a, float b, float c, float d, float e, float sum)\n{\n"
                        "    return sum + a.x * b + a.y * c + a.z * d + a.w * e;\n}\n" + KERNEL[:10], 1), ""),
    "a struct that is returned": (GOOD.replace("C[(size_t)row * N + col] = sum;", "((One *)C)[(size_t)row * N + col] = make(sum);").replace(
        KERNEL[:10], "struct One {\n    float x;\n};\n__device__ __noinline__ One make(float x) { return {x}; }\n" + KERNEL[:10], 1), ""),
    "a table of launchers": (GOOD.replace(LAUNCH, "    static void (*const table[])(const float *, const float *, float *, int, int, int, cudaStream_t) = {run<0>, run<1>};\n"
                             "    table[K & 1](A, B, C, M, N, K, stream);\n").replace('extern "C"', "template <int ODD>\nstatic void run(const float *A, const float *B, float *C, int M, "
                             "int N, int K, cudaStream_t stream)\n{\n    const int tiles_across = (N + TILE - 1) / TILE, tiles_down = (M + TILE - 1) / TILE;\n    (void)tiles_across, (void)tiles_down;\n" + LAUNCH + "}\n\nextern \"C\"", 1), ""),
    "odd names": (GOOD + "\nstatic const int a$b = 1'000, größe = a$b; const char *raw = R\"(\" asm( )\";\nint use = größe;\n", ""),
}
# These earn more than nothing and less than everything.
PARTLY = {
    "right only the first time": (in_launcher("static int calls; if (calls++) return cudaSuccess;"), "never written"),
    "wrong with k = 0": (GOOD.replace("if (row < M", "if (K > 0 && row < M"), "never written"),
    "atomic operations for loads": (through_function(
        "__device__ float peek(const float *p)\n{\n    return __uint_as_float(__atomic_load_n((const unsigned *)p, __ATOMIC_RELAXED));\n}"),
        "must be >="),
    "wasteful": (GOOD.replace("sum += A", "sum += 0 * ((volatile float *)B)[(size_t)k * N + col] + A"), "must be <="),
    "the rung before": (SOLUTION.read_text().replace("uncoalesced", "coalesced"), "must be <="),
}
# name: (text of 2_coalesced.cu, what it earns, words of the reason)
HONEST = {
    "the solution": (GOOD, FULL - OTHER, ""),
    "what looks odd": ('#include <algorithm>\n#define JOIN(a, b) a##b\n' + GOOD.replace(
        "    const int tiles_across", "    /* asm, __attribute__((constructor)) and #include </etc/passwd> are words */\n"
        "    struct Guard { int *v; __device__ ~Guard() { *v = 0; } };\n    int JOIN(va, lue) = 1;\n    Guard guard = {&value};\n"
        "    const int attribute = 0, asm_ = attribute;\n"
        "    const int tiles_across").replace("float sum = 0.0f;", "float sum = std::min(0.0f, 1.0f);").replace(
        "static const int TILE", "__device__ float ftw[4];\nextern \"C\" int backtrace(int i) { return i; }\nstatic const int TILE"),
        FULL - OTHER, ""),
    "a computed table": (GOOD.replace("static const int TILE", "static int twice(int x) { return x > 3 ? 2 * x : x; }\n"
                                      "volatile int table[2] = {twice(4), twice(rand() % 2)};\nstatic const int TILE"
                                      ).replace("rand() % 2", "warpSize"), FULL - OTHER, ""),
    "Windows line ends": (GOOD.replace("\n", "\r\n"), FULL - OTHER, ""),
    "the untouched handout": (handout.stub(pathlib.Path(STEP) / "2_coalesced.cu"), 0, "never written"),
    "a race": (GOOD.replace("C[(size_t)row * N + col] = sum;", "C[(size_t)row * N + col] = sum; __shared__ int x; x = col;"), 0, "race"),
    "wrong at the edge": (GOOD.replace("row < M && col < N", "row < M && col < N - 1"), 0, "never written"),
    "a wrong sum": (GOOD.replace("k < K", "k < K - 1"), 0, "products are summed"),
    "not C": (GOOD.replace("float sum", "flaot sum"), 0, "2_coalesced.cu:"),
    "empty": ("", 0, "does not define"),
    "renamed": (GOOD.replace("matmul_coalesced", "my_matmul"), 0, "does not define"),
    "not there": (None, 0, "not in the submission"),
}


def submit(folder, text):
    """Writes a submission of step 01 with this text in its second file."""
    target = pathlib.Path(folder) / STEP
    target.mkdir(parents=True)
    shutil.copy(SOLUTION, target)
    if text is not None:
        (target / "2_coalesced.cu").write_text(text, newline="")
    return folder


def nest(folder, depth):
    """Makes folders in one another."""
    for _ in range(depth):
        folder = folder / "d"
        folder.mkdir()


def grade_by_program(submission, results, form, kernel="", step="01", **environment):
    return subprocess.run([sys.executable, str(ROOT / "common/tools/labs/grade.py"), step, str(submission), str(results), form, kernel],
                          env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          check=False)


def test_formats():
    """Writes every format from a result with everything in it. No validator may refuse it, and each must refuse a spoilt one."""
    results = {"step": "03_online_softmax", "title": "Step 03", "score": 9, "max": 30, "seconds": 1.5, "protection": "all",
               "seed": "a seed", "cases": [], "not_judged": ["speed"], "timings": [{"kernel": "a", "milliseconds": 1.5, "reference": 1.0}], "tests": [
                   {"name": 'a "b" <c>', "kernel": "a", "kind": "case", "status": "passed", "points": 9, "max": 10,
                    "reason": "", "seconds": 1.25},
                   {"name": "d", "kernel": "a", "kind": "orders", "status": "failed", "points": 0, "max": 10,
                    "reason": "& \x01 \n\\", "seconds": 0.0},
                   {"name": "e", "kernel": "a", "kind": "speed", "status": "ungraded", "points": 0, "max": 10,
                    "reason": "no GPU", "seconds": 0.0}]}
    nothing = {**results, "score": 0, "tests": results["tests"][2:]}
    spoil = {"gradescope": ('"visible"', '"seen"'), "prairielearn": ("true", "1"), "autolab": ('"scores"', '"points"'),
             "classroom50": ('"max-score"', '"max_score"'), "junit": ('failures="1"', 'failures="2"'),
             "table": ("points", "marks"), "exit": ("points", "marks")}
    for name, make in formats.FORMATS.items():
        text = make(results)
        expect(schemas.CHECKS[name](text) == 9, f"{name}: another score")
        schemas.CHECKS[name](make(nothing))
        try:
            schemas.CHECKS[name](text.replace(*spoil[name]))
            expect(False, f"{name}: its validator takes anything")
        except (schemas.Invalid, TypeError, KeyError):
            pass
    expect('time="1.25"' in formats.junit(results), "JUnit has no times")
    print(f"  {', '.join(formats.FORMATS)}: valid", flush=True)


ATTACKS = {  # each returns 0 when the attack was stopped
    "fork": "return fork() != -1;",
    "vfork": "pid_t child = vfork(); if (child == 0) _exit(0); return child != -1;",
    "clone": "return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) != -1;",
    "exec": 'char *none[] = {"true", 0}; execve("/bin/true", none, 0); return access("/bin/true", X_OK) == 0;',
    "write": f'return open("{OUTSIDE}", O_WRONLY | O_CREAT, 0600) != -1;',
    "remove": 'return unlink("/tmp/nothing") != -1 || errno == ENOENT;',
    "read the project": f'return open("{SOLUTION}", O_RDONLY) != -1 || open("/etc/passwd", O_RDONLY) != -1;',
    "see processes": 'char name[64]; int i, n = 0; for (i = 1; i < 5000; i++) { snprintf(name, 64, "/proc/%d/stat", i);'
                     ' n += open(name, O_RDONLY) != -1; } return n > 3;',
    "network": "return socket(AF_INET, SOCK_STREAM, 0) != -1;",
    "kill": "return kill(1, 9) != -1 || kill(-1, 9) != -1 || syscall(SYS_tgkill, getppid(), getppid(), 9) != -1;",
    "trace": "return syscall(SYS_ptrace, 16, getppid(), 0, 0) != -1 || syscall(SYS_process_vm_readv, getppid(), 0, 0, 0, 0, 0) != -1;",
    "memory": "char *p = malloc(1l << 30); if (p) memset(p, 1, 1l << 20); return p != 0;",
    "shared memory": "return syscall(SYS_memfd_create, \"x\", 0) != -1 || syscall(SYS_shmget, 0, 4096, 0666) != -1;",
    "threads": "pthread_t t; int n = 0; while (n < 300 && pthread_create(&t, 0, sleeper, 0) == 0) n++; return n >= 300;",
    "a large file": "char x[4096] = {1}; signal(SIGXFSZ, SIG_IGN); int i; for (i = 0; i < 10 && write(1, x, 4096) == 4096;) i++; return i == 10;",
    "environment": "return environ && *environ && strncmp(*environ, \"PWD=\", 4) != 0;",
    "be root": "return setuid(0) != -1 || unshare(CLONE_NEWUSER) != -1;",
    "chroot": 'return chroot("/") != -1 || mount("a", "/", "tmpfs", 0, 0) != -1;',
}


def test_sandbox():
    """A confined process cannot do this, whatever it was compiled from, in every mode that this machine has."""
    includes = "".join(f"#include <{name}.h>\n" for name in "errno fcntl pthread sched signal stdio stdlib string sys/mount "
                       "sys/socket sys/syscall unistd".split())
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = pathlib.Path(name)
        source = "\n".join(f"    if (strcmp(argv[1], \"{attack}\") == 0) {{ {code} }}" for attack, code in ATTACKS.items())
        (folder / "attack.c").write_text(f"{includes}static void *sleeper(void *x)\n{{\n    sleep(5);\n    return x;\n}}\n"
                                         f"int main(int argc, char **argv)\n{{\n{source}\n    for (;;)\n        ;\n}}\n")
        program = str(folder / "attack")
        workshop.run(["gcc", "-D_GNU_SOURCE", "-w", "-static", str(folder / "attack.c"), "-o", program], "attack.c")
        modes = ["namespaces", "namespaces of root", "filter"] if os.geteuid() == 0 else ["namespaces", "filter"]
        works = 0
        for mode in modes:
            try:
                box = sandbox.Sandbox(folder / "users", mode)
            except sandbox.Unable as problem:
                print(f"  {mode}: not to be had here: {problem}")
                continue
            works += 1
            for attack in ATTACKS:
                if mode == "filter" and os.geteuid() != 0 and attack in ("exec", "read the project", "see processes"):
                    continue  # docs/instructor.md says so
                with open(folder / "out", "w+b") as out:
                    ending = box.run([program, attack], "run", sandbox.Limits(3, 10, 256, file_bytes=16384), stdout=out)
                expect(ending.status == 0, f"{mode} lets a process {attack}: status {ending.status}")
            begin = time.monotonic()
            ending = box.run([program, "for ever"], "run", sandbox.Limits(1, 10, 256))
            expect(ending.timed_out and time.monotonic() - begin < 8, f"{mode}: an endless loop ends with {ending.status}")
            ending = box.run(["/usr/bin/yes"], "build", sandbox.Limits(5, 5, 256))
            expect(len(ending.output) == 1 << 16, f"{mode}: {len(ending.output)} bytes of output were read")
            ending = box.run(["/usr/bin/cat", str(SOLUTION)], "build", sandbox.Limits(5, 5, 256))
            expect(mode == "filter" or ending.status != 0, f"{mode}: a compiler sees the project")
            print(f"  {mode}: {len(ATTACKS)} attacks and a loop stopped ({box.protection})", flush=True)
        expect(works > 0, "no mode of the sandbox works")


def test_names():
    """Names are data. What replaces a file is not read. A wrong path is an error."""
    instead = {"link": lambda path: path.symlink_to(SOLUTION.with_name("2_coalesced.cu")),
               "large": lambda path: path.write_text(GOOD + "/" * grade.LIMIT),
               "loop": lambda path: path.symlink_to(path.name), "pipe": os.mkfifo, "a folder": pathlib.Path.mkdir}
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        for what, make in instead.items():
            folder = top / what
            make(submit(folder, None) / STEP / "2_coalesced.cu")
            grading = grade.Grading("01", folder, "files", "coalesced")
            reason = grading.grade()["tests"][0]["reason"]
            expect("not a regular file" in reason, f"{what}: {reason}")
        (top / "folder").mkdir()
        (top / "folder" / STEP).symlink_to(ROOT / STEP)
        results = grade.Grading("01", top / "folder", "files").grade()
        expect(results["score"] == 0, f"a link to the solution's folder earns {results['score']} points")
        for what, place, words in (("too high", f"lab/{STEP}/2_coalesced.cu", f"has lab/{STEP}/2_coalesced.cu: hand in the folder"),
                                   ("misspelt", f"{STEP}/2_coalesed.cu", f"has {STEP}/2_coalesed.cu: is that the one"),
                                   ("other", "notes\n.txt", "; it has notes\\n.txt"), ("empty", None, "which has no files")):
            (top / what).mkdir()
            if place:
                (top / what / place).parent.mkdir(parents=True, exist_ok=True)
                (top / what / place).write_text(GOOD)
            test = grade.Grading("01", top / what, "files", "coalesced").grade()["tests"][0]
            expect(words in test["reason"] and test["status"] == "ungraded", f"{what}: {test['reason']}")
        deep = pathlib.Path(submit(top / "deep", None))
        nest(deep, 1500)
        results = grade.Grading("01", deep, "files").grade()
        reasons = {test["kernel"]: test["reason"] for test in results["tests"]}
        expect(results["score"] == OTHER and "2_coalesced.cu is not in the submission" in reasons.get("coalesced", ""), f"deep folders: {reasons}")
        subprocess.run(["rm", "-r", str(deep)], check=True)  # Python's rmtree() goes no deeper than its stack
        for odd in ("o'brien", "line\nline\n", "$(shell touch a) $(touch b) `touch c`", "-n; touch d", "ünder \"score\" #1"):
            submit(top / odd, GOOD)
            results = top / f"results of {odd}"
            done = subprocess.run(["make", "-s", "-C", str(ROOT), "grade", "STEP=01", f"SUBMISSION={top / odd}", f"OUT={results}",
                                   "FORMAT=junit", "KERNEL=coalesced"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")}, check=False,
                                  preexec_fn=lambda: os.umask(0o077))
            expect(done.returncode == 0 and schemas.CHECKS["junit"](results.read_text()) == FULL - OTHER,
                   f"a folder named {odd}: {done.stderr.decode()[-300:]}")
        expect(not any((folder / letter).exists() for folder in (top, ROOT) for letter in "abcd"), "a name was executed")
        for wrong in (top / "nobody", top / "results of o'brien"):
            done = grade_by_program(wrong, top / "none", "gradescope")
            expect(done.returncode == 2 and not (top / "none").exists(), f"{wrong} was graded")
        full, partial = (grade_by_program(top / "o'brien", "-", "exit").returncode,
                         grade_by_program(top / "large", "-", "exit").returncode)
        expect((full, partial) == (0, 1), f"exit statuses {full} for full points, {partial} for less")
    print("  links, loops, pipes, folders, large files, odd names, wrong paths", flush=True)


def test_results():
    """A results file is the grader's or there is none. Nothing that lies where it goes is run, followed, kept or taken for it."""
    with tempfile.TemporaryDirectory() as name:
        top, ran = pathlib.Path(name), pathlib.Path(name) / "ran"
        folder = pathlib.Path(submit(top / "student", GOOD))
        for command in (["init", "-q", "."], ["add", "."], ["config", "core.fsmonitor", f"touch '{ran}'; false"]):
            subprocess.run(["git", "-C", str(folder), *command], check=True)
        (top / "kept").write_text("kept")
        out = folder / "result.json"
        for what, make in {"a file": lambda: out.write_text("forged"), "a file to read": lambda: (out.write_text("forged"), out.chmod(0o444)),
                           "a link": lambda: out.symlink_to(top / "kept"), "a link to nothing": lambda: out.symlink_to("nothing")}.items():
            make()
            done = grade_by_program(folder, out, "classroom50", "no such kernel")
            expect(done.returncode == 2 and not os.path.lexists(out), f"{what} survives a grading that failed: {done.stderr}")
            out.unlink(missing_ok=True)
        out.write_text("forged")
        process = subprocess.Popen([sys.executable, str(ROOT / "common/tools/labs/grade.py"), "01", str(folder), str(out), "classroom50"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(2)
        process.kill()
        process.wait()
        expect(not out.exists(), "a forged file survives a grading that was killed")
        old = os.umask(0o027)
        # Where everybody may write, somebody knows this process's number.
        (folder / f"result.json.{os.getpid()}").symlink_to(top / "kept")
        grade.outfile.write(out, "results")
        os.umask(old)
        expect(out.read_text() == "results" and out.stat().st_mode & 0o777 == 0o640, f"a result has the mode {out.stat().st_mode:o}")
        expect((top / "kept").read_text() == "kept", "a result went through a link")
        expect(not ran.exists(), "the submission's git ran a program")
        expect([path.name for path in folder.glob("result.json*") if not path.is_symlink()] == ["result.json"], "something is left beside a result")
        for where, words in ((folder / ("n" * 250), "file name too long"), (pathlib.Path("/dev/full"), "no space left")):
            try:
                grade.outfile.write(where, "results")
                expect(False, f"{where} can be written")
            except grade.outfile.Refused as refusal:
                expect(words in str(refusal), f"{where}: {refusal}")
    print("  files, links and a program of git where a result goes", flush=True)


# Each gives the lines behind it other numbers, or looks as if it did.
NUMBERED = ["#line 50", "%: line 50", '# 50 "f"', "# 5'0", '# 50 R"(f)"', "# 50 // f", "#\\\nline 50", "#li\\  \nne 50", "/* a\n*/ # /* b */ line 50",
            "\ufeff#line 50", "\f#\vline 50", "\0# line 50", "/\\\n/ /*\n#line 50\n//*/", 'const char *a = R"()\\\n" R"x()";\n#line 50\n//)x"', "#if 1\n#line 50\n#endif"]
UNNUMBERED = ["// #line 50", "/* #1 load\n   #2 add */", "#define line 50", "#if 1 // line 50\n#endif", "int a = 50; // # 50", 'const char *a = "#line 50";',
              "#pragma unroll", "??=line 50", "#define A(x) #x\n#define B A(line 50)", "int a = 5 % 2; /* # 50 */"]


def test_places():
    """A place in the results is one that the checked build found, under its own number: a submission cannot tell a size by it."""
    with tempfile.TemporaryDirectory() as name:
        for number, text in enumerate(NUMBERED + UNNUMBERED):
            (pathlib.Path(name) / "a.cu").write_text(text)
            read = subprocess.run(["g++", "-std=c++17", "-w", "-E", "-P", "-x", "c++", "-"], input=text + "\nint at = __LINE__;", stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, check=False).stdout
            moved = f"int at = {text.count(chr(10)) + 2};" not in read
            expect(moved == (number < len(NUMBERED)), f"the compiler reads {text!r} as {read!r}")
            try:
                examine.examine_places("a.cu", "", pathlib.Path(name))
                refused = False
            except examine.Refused:
                refused = True
            expect(refused == moved, f"{text!r} is {'' if refused else 'not '}refused")
        told, refuse = "a race on shared memory at 2_coalesced.cu", '#include "harness/refusal.h"\n'
        for number, (text, words) in enumerate((
                (in_sum("if (threadIdx.x == 0)\n    __syncthreads();"), ", at 2_coalesced.cu:"), (in_sum("\n#line 399\nassert(M < 0);", "#include <assert.h>\n"), "like #line"),
                (in_sum("assert(M < 0);", "#include <assert.h>\n"), "an assertion of yours failed"),
                (in_sum(f'if (M > 0) __assert_fail("", "{told}:77{" " * 600}", 1, "");', "#include <assert.h>\n"), "an assertion of yours failed"),
                (without_launch(f'return refuse(cudaErrorInvalidValue, "{told}:%d", M);', refuse), "the launcher returned an error"),
                (in_launcher(f'refuse(cudaErrorInvalidValue, "{told}:%d", M); cudaMemsetAsync((void *)8, 0, 8, stream);', refuse), "a kernel failed"))):
            tests = grade.Grading("01", submit(f"{name}/{number}", text), "places", "coalesced").grade()["tests"]
            reasons = " | ".join(test["reason"] for test in tests)
            expect(words in reasons and (", at " in reasons) == (number == 0), f"a place, {number}: {reasons[:300]}")
    print(f"  {len(NUMBERED)} directives, {len(UNNUMBERED)} that look like some, assertions, refusals", flush=True)


def test_fallback():
    """Without namespaces, and when nothing inspects symbols, attacks must earn nothing either."""
    hostile = {
        "exit(0)": CHEATS["exit(0)"][0],
        "forking": "#include <unistd.h>\n" + kernel(IDLE).replace(LAUNCH, "    if (fork() != -1)\n        for (;;) {}\n" + LAUNCH),
        "writing outside": CHEATS["writing outside"][0],
        "much memory": in_launcher("volatile char *much = (char *)malloc(8l << 30); *much = 1;",
                                   "#include <stdlib.h>\n"),
        "reading the inputs": without_launch(HOST_LOOP),
    }
    with tempfile.TemporaryDirectory() as name:
        for mode, attacks in (("filter", hostile), (None, ["forking", "reading the inputs"])):
            for attack in attacks:
                folder = submit(pathlib.Path(name) / f"{mode} {attack}", hostile[attack])
                results = grade.Grading("01", folder, "second line", "coalesced", check_symbols=False, mode=mode).grade()
                expect(results["score"] == 0 and results["tests"][0]["status"] == "failed",
                       f"{attack}, {mode}: {results['tests']}")
        folder = submit(pathlib.Path(name) / "good", GOOD)
        results = grade.Grading("01", folder, "second line", "coalesced", mode="filter").grade()
        expect(results["score"] == FULL - OTHER and "NO namespaces" in results["protection"], f"without namespaces: {results}")
    print("  without namespaces, and without a look at symbols", flush=True)


# A fuzzed text is made of these, and of EVIL, a word that a reader sees or does not.
ATOMS = ["EVIL", "EVIL", "a", "R", "u8R", "LR", "u8", "L", "_", "$", "$R", "\\u00e4", "ä", "1", "0x1", "1e", "1'0", "1p", ".5", "'", '"', "''", '""',
         "'\\''", '"\\""', 'R"(', ')"', 'R"x(', ')x"', 'u8R"(', "(", ")", "//", "/*", "*/", "\\\n", "\n", " ", "+", "-", "<:", ":>", "%:", "#", "??/", "::",
         "<<<", ">>>", "\\", "e+", "_s", "EVIL$", "xEVIL", "1EVIL"]


def words_of(translator, text):
    """Returns the words that the translator reads, without literals."""
    with tempfile.NamedTemporaryFile() as tokens:
        subprocess.run([translator, "", tokens.name], input='# 1 "fuzzed"\n' + text, stdout=subprocess.DEVNULL, text=True, check=True)
        lines = pathlib.Path(tokens.name).read_text().splitlines()
    return [line for line in lines if re.match(r"[^\W\d]|[$\\]", line)]


def test_readers():
    """The preprocessor, the translator and the tools' source.py read the same words: in the project's sources (some by seed, with
    ALL=1 all) and in texts made of what misleads readers."""
    translator, seed = str(ROOT / "build/simt/simt-translate"), os.environ.get("SEED") or time.strftime("%Y%m%d")
    workshop.run([str(ROOT / "common/simt/simtcc"), "--runtime"], "the CPU backend")
    chance = random.Random(seed)
    files = sorted(path for folder in ("common", "tests", *handout.STEPS.values()) for path in (ROOT / folder).rglob("*")
                   if path.suffix in (".c", ".h", ".cu", ".cuh", ".cpp"))
    for path in files if os.environ.get("ALL") else chance.sample(files, 40):
        done = subprocess.run(["g++", "-std=c++17", "-w", "-fpreprocessed", "-dD", "-E", "-P", "-x", "c++", str(path)], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
        theirs = [word for word, _, _ in source.tokens_of(path.read_text("utf-8")) if re.fullmatch(source.NAME, word)]
        ours = words_of(translator, source.without_directives(done.stdout))
        expect(ours == theirs, f"{path}: readers differ at {next(((a, b) for a, b in zip(ours, theirs) if a != b), len(ours) - len(theirs))}")
    read, seen = 0, 0
    for number in range(1000 if os.environ.get("ALL") else 150):
        text = "".join(chance.choice(ATOMS) for _ in range(chance.randrange(3, 14))) + "\nEVIL\n" * chance.randrange(2)
        command = ["g++", "-std=c++17", "-E", "-x", "c++", "-"]
        truth = subprocess.run(command, input="#pragma GCC poison EVIL\n" + text, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        plain = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if plain.returncode != 0 or "missing terminating" in plain.stderr or "stray" in plain.stderr or "unterminated" in plain.stderr:
            continue
        evil, read = "poisoned" in truth.stderr, read + 1
        seen += evil
        expect(("EVIL" in words_of(translator, plain.stdout)) == evil, f"the translator reads {text!r} otherwise than the compiler (seed {seed})")
        tokens = {word for word, _, _ in source.tokens_of(text)}
        # A directive's words are the preprocessor's; a name with a line break in it is two to source.py.
        if not re.search(r"^\s*(#|%:|\?\?=)|\\\n|^[ /*]*#", text, re.M):
            expect(("EVIL" in tokens) == evil, f"source.py reads {text!r} otherwise than the compiler (seed {seed})")
    print(f"  {len(files)} sources, {read} odd texts, of which {seen} hold the word, seed {seed}", flush=True)


def test_variants():
    """A variant changes the handout and the grading alike: a knob's claims and cases know its values."""
    step = "02"
    lab = handout.lab_of(handout.STEPS[step])
    values, drawn = lab["knobs"]["T"]["values"], {}
    with tempfile.TemporaryDirectory() as name:
        for student in range(20):
            os.environ["LAB_VARIANT"] = f"a secret {student}"
            drawn.setdefault(grade.load_lab(step)["chosen"]["T"], os.environ["LAB_VARIANT"])
        expect(sorted(drawn) == sorted(values), f"twenty students have the tiles {sorted(drawn)} of {values}")
        for value, variant in drawn.items():
            os.environ["LAB_VARIANT"] = variant
            folder = handout.make(step, pathlib.Path(name) / str(value))
            expect(f"{value} by {value}" in (folder / "README.md").read_text(), f"the handout does not tell the tile {value}")
            # The solution is written for the first value, and earns a tenth where another was asked for.
            results = grade.Grading(step, ROOT, "variants", "shared_tile").grade()
            expect(results["score"] == (grade.POINTS if value == values[0] else 0.9), f"tiles of {value}: {results['score']} points")
            del os.environ["LAB_VARIANT"]
            packed = json.loads((folder / handout.STEPS[step] / "lab.json").read_text())
            expect(handout.knobs(packed, step) == {"T": value}, f"the handout's grader has {packed['knobs']}")
    seeds = [[case["options"] for case in grade.Grading("01", ROOT, seed, "coalesced").grade()["cases"]] for seed in ("a", "a", "b")]
    expect(seeds[0] == seeds[1] != seeds[2], "a seed does not choose the cases")
    print(f"  tiles of {sorted(drawn)}; seeds", flush=True)


def test_given_kernels():
    """A kernel that lab.json leaves out is handed out finished and costs nothing. Points may differ."""
    with tempfile.TemporaryDirectory() as name:
        lab_json = pathlib.Path(name) / STEP / "lab.json"
        shutil.copytree(ROOT / STEP, lab_json.parent)
        handout.ROOT = pathlib.Path(name)
        try:
            lab = json.loads(lab_json.read_text())
            lab_json.write_text(json.dumps(lab | {"leave_out": ["coalesced"]}))
            stubs = pathlib.Path(name) / "stubs"
            handout.workspace(STEP, stubs)
            expect([path.name for path in stubs.glob("*.cu")] == ["1_uncoalesced.cu"], f"stubs beside a given kernel: {list(stubs.iterdir())}")
            expect([row["name"] for row in handout.lab_of(STEP)["kernels"]] == ["uncoalesced"], "a given kernel is graded")
            expect(workshop.given_files(STEP) == ["01_step.c", "01_step.h", "2_coalesced.cu"], f"given: {workshop.given_files(STEP)}")
            lab_json.write_text(json.dumps(lab | {"points": {"coalesced": 30}}))
            rows = handout.lab_of(STEP)["kernels"]
            expect([row.get("points") for row in rows] == [None, 30], f"points of one kernel: {rows}")
        finally:
            handout.ROOT = ROOT
    print("  a kernel that is given, points of one kernel", flush=True)


def test_own_kernels():
    """Our own kernels earn all of their points: some by seed, with ALL=1 all."""
    rows = [(step, row["name"]) for step in handout.STEPS for row in grade.load_lab(step)["kernels"]]
    seed = os.environ.get("SEED") or time.strftime("%Y%m%d")
    chosen = rows if os.environ.get("ALL") else random.Random(seed).sample(rows, 6)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        def run(row):
            with tempfile.TemporaryDirectory() as name:
                grade_by_program(ROOT, f"{name}/results", "gradescope", row[1], row[0], LAB_SEED=seed, LAB_SECONDS=str(SECONDS))
                return row, json.loads(pathlib.Path(name, "results").read_text())

        for (step, kernel), results in pool.map(run, chosen):
            wrong = [f"{test['name']}: {test['output']}" for test in results["tests"] if test.get("status") != "passed"]
            expect(results["score"] == grade.POINTS and not wrong, f"{step}'s {kernel}: {results['score']} points: {wrong[:3]}")
    print(f"  {len(chosen)} of {len(rows)} kernels, seed {seed}", flush=True)


def test_bodies_of_others():
    """A kernel that is right without its rung's idea has a tenth of the points at most: the rung before, the naive kernel and one
    thread that does everything, under the names of some rungs by seed, with ALL=1 of all that claim something and follow another."""
    rungs = [rung for step in learn.STEPS.values() for rung in learn.rungs_of(step)
             if rung.about["claims"] and test_bodies.naive(rung)["name"] != rung.kernel]
    seed = os.environ.get("SEED") or time.strftime("%Y%m%d")
    chosen = rungs if os.environ.get("ALL") else random.Random(seed).sample(rungs, 3)
    jobs = [(rung, what, text) for rung in chosen for what, text in (
        ("the rung before", test_bodies.before(rung)), ("the naive kernel", test_bodies.renamed(rung, test_bodies.naive(rung))),
        ("one thread", test_bodies.serial(rung))) if text]
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        def run(job):
            rung, what, text = job
            folder = pathlib.Path(name) / f"{rung.kernel} {what}"
            shutil.copytree(ROOT / rung.step, folder)
            (folder / rung.about["file"]).write_text(text)
            grade_by_program(folder, folder / "results", "gradescope", rung.kernel, rung.step[:2], LAB_SEED=seed, LAB_SECONDS=str(SECONDS))
            return rung, what, json.loads((folder / "results").read_text())

        points = {}
        for rung, what, results in pool.map(run, jobs):
            points.setdefault(rung.kernel, {})[what] = results["score"]
            reasons = sorted({test["output"] for test in results["tests"] if test.get("status") != "passed"})
            expect(results["score"] <= grade.WITHOUT_CLAIM * grade.POINTS, f"{rung.kernel}: {what} has {results['score']} points: {reasons[:3]}")
    for kernel, row in points.items():
        print(f"  {kernel}: " + ", ".join(f"{what} {score:g}" for what, score in row.items()), flush=True)


def test_speed():
    """The CPU is asked what a GPU would be: laps, their outputs, the ratio's points, the leaderboard. The reference is slowed down,
    so that a busy machine's noise moves neither the fast one under all points nor the slow one above none."""
    def slowed(turns):
        return in_sum(f"for (volatile int i = 0; i < {turns}; i++) {{}}")

    later = in_launcher("static int calls; if (calls++ > 8) return cudaSuccess;")
    wrong = GOOD.replace(LAUNCH, LAUNCH.replace("M, N, K)", "M, N, ++calls > 8 ? K - 1 : K)")).replace("static const int TILE", "static int calls;\nstatic const int TILE")
    with tempfile.TemporaryDirectory() as name:
        for number, (text, points, words) in enumerate(((GOOD, 2, "ratio"), (slowed(1500), 0, "ratio 0."), (later, 0, "left its outputs unwritten"),
                                                        (wrong, 0, "an output is wrong"))):
            folder = submit(pathlib.Path(name) / f"student {number}", text)
            grading = grade.Grading("01", folder, "speed", "coalesced")
            grading.on_gpu = True
            grading.lab["speed"] = {"at": "--m 64 --n 64 --k 64"}

            def build(kernel, grading=grading):
                shutil.copy2(grading.runner(kernel, "check"), grading.runner(kernel, "gpu"))
                mine, grading.folder = grading.folder, grading.folder / "reference"
                (grading.folder / "source").mkdir(parents=True)
                shutil.copytree(ROOT / STEP, grading.folder / "source" / STEP)
                (grading.folder / "source" / STEP / kernel["file"]).write_text(slowed(30))
                grading.build(kernel)
                shutil.move(grading.runner(kernel, "check"), mine / grading.runner(kernel, "reference").name)
                grading.folder = mine

            grading.build_for_gpu = build
            results = grading.grade()
            test = results["tests"][-1]
            expect(test["kind"] == "speed" and test["points"] == points and words in test["reason"], f"speed of {number}: {test}")
            expect(results["max"] == FULL - OTHER and not results["not_judged"], f"speed of {number}: {results['max']} points")
            grade.write_leaderboard(f"{name}/board.csv", f"student {number}", results)
        board = [line.split(",") for line in pathlib.Path(name, "board.csv").read_text().splitlines()]
        expect([row[:3] for row in board] == [[f"student {n}", STEP, "coalesced"] for n in (0, 1)] and
               float(board[0][3]) < float(board[1][3]), f"the leaderboard: {board}")
        nvcc = shutil.which("nvcc", path=os.environ["PATH"] + ":/usr/local/cuda/bin")
        if nvcc:  # only the GPU's compiler sees this, which keeps results from lap to lap
            there, workshop.device = workshop.device, lambda: (nvcc, "80")
            hidden = in_launcher("", "#ifdef __CUDACC_VER_BUILD__\n#define KEPT static __device__ float kept[1 << 22]; sum += 0 * kept[row];\n"
                                 "#else\n#define KEPT\n#endif\n").replace("float sum = 0.0f;", "float sum = 0.0f; KEPT")
            grading = grade.Grading("01", submit(pathlib.Path(name) / "hidden", hidden), "speed", "coalesced")
            test, workshop.device = grading.grade()["tests"][-1], there
            expect(test["kind"] == "speed" and "bytes of global variables" in test["reason"], f"hidden variables: {test}")
    print("  a fast one, a slow one, idle laps, a wrong last lap" + ", hidden variables" * bool(nvcc), flush=True)


def submissions():
    """Returns (name, text, points of its kernel or None for some of them, words of the reasons, format)."""
    for name, (text, points, words) in HONEST.items():
        yield name, text, points, words, "gradescope"
    for table, points in ((CHEATS, 0), (PARTLY, None)):
        for name, (text, words) in table.items():
            yield name, text, points, words, "gradescope"
    for form in formats.FORMATS:
        yield f"the solution as {form}", GOOD, FULL - OTHER, "", form


def test_class():
    """Grades all of them, thirty at a time. For every other one it also grades the kernel that is not the cheat's."""
    with tempfile.TemporaryDirectory() as folder:
        def run(job):
            number, (name, text, points, words, form) = job
            place = pathlib.Path(folder) / str(number)
            submit(place, text)
            whole, begin = number % 2 == 0 or form != "gradescope", time.monotonic()
            done = grade_by_program(place, place / "results", form, "" if whole else "coalesced", LAB_SEED="a class",
                                    LAB_SECONDS=str(SECONDS))
            return name, form, points, words, done, time.monotonic() - begin, place / "results", OTHER if whole else 0

        slowest = 0
        with concurrent.futures.ThreadPoolExecutor(30) as pool:
            for name, form, points, words, done, seconds, path, other in pool.map(run, enumerate(submissions())):
                slowest = max(slowest, seconds)
                try:
                    text = path.read_text()
                    score = schemas.CHECKS[form](text)
                except Exception as problem:
                    expect(False, f"{name}: no valid {form} file: {problem} {done.stderr}")
                    continue
                expect(seconds < SECONDS, f"{name}: {seconds:.0f} s")
                expect(SECRET not in text, f"{name}: a submission's words are in the results")
                expect(len(text) < 100000, f"{name}: {len(text)} characters of results")
                expect(score == other + points if points is not None else other < score < other + FULL - OTHER,
                       f"{name}, {form}: {score} points")
                if form == "gradescope":
                    tests = [test for test in json.loads(text)["tests"] if test["name"].startswith("coalesced")]
                    reasons = " | ".join(test["output"] for test in tests)
                    expect(words in reasons, f"{name}: the reason is '{reasons[:300]}', not '{words}'")
                    print(f"  {score:>3} {seconds:4.0f} s  {name}: {tests[0]['output'][:90]}", flush=True)
        print(f"  the slowest took {slowest:.0f} s of {SECONDS}", flush=True)


def test_report():
    """A class's report has each score and each mistake, and finds the two who share a kernel but for its names."""
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        (top / "graded").mkdir()
        for student in range(12):
            chance = random.Random(student)
            text = GOOD.replace("int K)\n{", "int K)\n{\n" + "".join(
                f"    int a{n} = {chance.choice('+-~!')}{student} {chance.choice('+-*/&|^')} {n + 1}; (void)a{n};\n" for n in range(20)))
            submit(top / "class" / f"s{student}", text)
            if student == 11:
                copied = (top / "class/s5" / STEP / "2_coalesced.cu").read_text().replace("sum", "total").replace(" a", " b")
                (top / "class/s11" / STEP / "2_coalesced.cu").write_text(copied)
            right = student % 2 == 0
            tests = [{"name": "coalesced: claims", "kind": "claims", "status": "passed" if right else "failed", "points": 2 * right,
                      "max": 2, "reason": "", "kernel": "coalesced", "seconds": 0},
                     {"name": "coalesced: case 1: x", "kind": "case", "status": "passed" if right else "failed", "points": 8 * right,
                      "max": 8, "reason": "" if right else "an output is wrong", "kernel": "coalesced", "seconds": 0}]
            results = {"step": STEP, "title": STEP, "score": 10 * right, "max": 10, "seconds": 1, "protection": "", "not_judged": [],
                       "timings": [], "seed": "", "cases": [], "tests": tests}
            (top / "graded" / f"s{student}.json").write_text(formats.gradescope(results))
        odd = top / "class/s0"  # what would take for ever to read, and what nobody grades
        (odd / STEP / "1_uncoalesced.cu").write_text('R"(")' * 40000)
        (odd / STEP / "2_coalesced.cu").write_text("/" * (grade.LIMIT + 1))
        os.mkfifo(odd / "more.cu")
        nest(odd, 1500)
        begin = time.monotonic()
        done = subprocess.run(["make", "-s", "-C", str(ROOT), "class-report", f"GRADED={top}/graded", f"SUBMISSIONS={top}/class", f"OUT={top}/out"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120)
        expect(done.returncode == 0, f"class-report: {done.stdout}")
        expect("s0: 2_coalesced.cu is not a regular file" in done.stdout, f"class-report says nothing of a large file: {done.stdout}")
        expect(time.monotonic() - begin < 60, f"class-report: {time.monotonic() - begin:.0f} s for an odd file")
        subprocess.run(["rm", "-r", str(odd)], check=True)
        table, page = (top / "out.csv").read_text(), (top / "out.html").read_text()
        expect("s4,10,10,kept" in table and "s5,0,0,not kept" in table, f"the report's table: {table}")
        expect("<td>6</td><td>coalesced</td><td>an output is wrong</td>" in page, "the report has no mistake")
        expect("<td>s5</td><td>s11</td>" in page or "<td>s11</td><td>s5</td>" in page, "the copy was not found")
        expect(page.count("%</td>") == 1, f"{page.count('%</td>')} pairs are alike")
    print("  a class of twelve, one copy", flush=True)


def test_hostile():
    """None of these submissions earns a point, each of the fair ones all of them, and every results file is valid."""
    with tempfile.TemporaryDirectory() as folder:
        def run(job):
            number, (name, (text, words), points) = job
            place = pathlib.Path(folder) / str(number)
            submit(place, text)
            done = grade_by_program(place, place / "results", "gradescope", "coalesced", LAB_SECONDS=str(SECONDS))
            return name, words, points, done, place / "results"

        chosen = [(name, case, points) for table, points in ((SLY, 0), (FAIR, FULL - OTHER)) for name, case in table.items()
                  if os.environ.get("ONLY", "") in name]
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count())) as pool:
            for name, words, points, done, path in pool.map(run, enumerate(chosen)):
                try:
                    text = path.read_text()
                    score = schemas.CHECKS["gradescope"](text)
                except Exception as problem:
                    expect(False, f"{name}: no valid file: {problem} {done.stderr}")
                    continue
                reasons = " | ".join(test["output"] for test in json.loads(text)["tests"])
                expect(score == points and words in reasons, f"{name}: {score} of {points} points, for '{reasons[:300]}', not '{words}'")
                print(f"  {score:>3} {name}: {reasons[:110]}", flush=True)


def test_deadline():
    """A grading that runs out of time, or is told to end, must leave results."""
    with tempfile.TemporaryDirectory() as name:
        asleep = kernel(IDLE + " for (;;) __nanosleep(1000000000u);")
        for text, environment, end in ((CHEATS["an endless loop"][0], {"LAB_SECONDS": "4"}, None), (asleep, {"LAB_SECONDS": "4"}, None),
                                       (CHEATS["an endless loop"][0], {}, 3)):
            folder = submit(tempfile.mkdtemp(dir=name) + "/slow", text)
            process = subprocess.Popen([sys.executable, str(ROOT / "common/tools/labs/grade.py"), "01", folder, f"{name}/results", "junit"],
                                       env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
            begin = time.monotonic()
            if end:
                time.sleep(end)
                process.terminate()
            process.wait(60)
            expect(time.monotonic() - begin < 12, f"{environment}: {time.monotonic() - begin:.0f} s")
            expect(schemas.CHECKS["junit"](pathlib.Path(name, "results").read_text()) < FULL, "a hanging kernel has full points")
    print("  out of time, ended: results are there", flush=True)


def softmax_class():
    """Returns (kind, edit of 03's kernel `online`, least and most points), five of ten good: the others lose that kernel's."""
    whole, other = 5 * grade.POINTS, 4 * grade.POINTS
    return [("good", lambda text: text, whole, whole)] * 5 + [
        ("forgets", lambda text: text.replace("state = running_softmax_merge(state, state_piece)", "state = state_piece"), other, whole - 1),
        ("ragged", lambda text: text.replace("if (row >= rows)\n        return;", ""), other, whole - 1),
        ("forks", lambda text: "#include <unistd.h>\n" + text.replace("    online<<<", "    if (fork() != -1)\n        for (;;) {}\n    online<<<"),
         other, other),
        ("hangs", lambda text: text.replace("    struct running_softmax state =", "    for (volatile int i = 0; i >= 0; i = 0) {}\n"
                                            "    struct running_softmax state =", 1), other, other),
        ("garbage", lambda text: "}{" + text, other, other)]


def test_slurm_cluster():
    """Slurm, a cluster of one node, grades a class of CLASS (10) in step 03 as the program alone does, each as it deserves."""
    if test_slurm.missing():
        print(f"  SKIPPED: {test_slurm.missing()}", flush=True)
        return
    kinds, size = softmax_class(), int(os.environ.get("CLASS") or 10)
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        top.chmod(0o755)
        for number in range(size):
            folder = top / "submissions" / f"student {number}"
            shutil.copytree(ROOT / "03_online_softmax", folder, ignore=shutil.ignore_patterns("limit", "puzzles"))
            for path in folder.glob("*.cu"):  # nobody's file is another's, so each is compiled
                path.write_text(path.read_text() + f"/* {name} {number} */\n")
            path = folder / "2_online.cu"
            path.write_text(kinds[number % len(kinds)][1](path.read_text()))
        by_slurm, seconds = test_slurm.grade_class(top, "03", top / "submissions", "slurm")
        expect(len(by_slurm) == size, f"Slurm: {len(by_slurm)} of {size} results")
        scores = [schemas.CHECKS["autolab"](by_slurm[f"student {number}"]) for number in range(size)]
        for number, score in enumerate(scores):
            kind, _, least, most = kinds[number % len(kinds)]
            expect(least <= score <= most, f"Slurm: student {number} ({kind}) has {score} points")
            expect(score == scores[number % len(kinds)], f"Slurm: student {number} ({kind}) has {score} points, another {scores[number % len(kinds)]}")
        for number in range(4, min(size, len(kinds))):
            by_hand = test_slurm.grade_by_hand("03", top / "submissions" / f"student {number}", top / "one", "slurm")
            expect(by_slurm[f"student {number}"] == by_hand, f"Slurm: {by_slurm[f'student {number}']}, otherwise {by_hand}")
        print(f"  {size} submissions in {seconds:.0f} s on {os.cpu_count()} cores; points of the first: {scores[:len(kinds)]}", flush=True)


TESTS = {"formats": test_formats, "sandbox": test_sandbox, "names": test_names, "results": test_results, "places": test_places, "variants": test_variants,
         "given": test_given_kernels, "readers": test_readers, "own": test_own_kernels, "bodies": test_bodies_of_others, "speed": test_speed, "fallback": test_fallback,
         "hostile": test_hostile, "deadline": test_deadline, "report": test_report, "class": test_class, "slurm": test_slurm_cluster}

if __name__ == "__main__":
    os.environ["BACKEND"] = "cpu"  # no points for speed, on any machine
    grade.hide()
    for wanted in sys.argv[1:] or TESTS:
        begin = time.monotonic()
        print(f"== {wanted}", flush=True)
        TESTS[wanted]()
        expect(not os.path.exists(OUTSIDE), "a file was written outside")
        print(f"   {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{len(failures)} failed" if failures else "all passed")
    sys.exit(1 if failures else 0)
