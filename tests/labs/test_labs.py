#!/usr/bin/env python3
"""Tests of the grader.

    tests/labs/test_labs.py [NAME ...]  formats, confine, cheats, files, second_line, workspace, thirty (default: all)

Thirty submissions of step 01 (good, wrong, cheating, hanging) are graded at once by the program itself, and every one
must end with a valid results file and the right score.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import formats
import grade
import handout
import schemas
import workshop

GOOD = (handout.ROOT / "01_naive_matmul/2_coalesced.cu").read_text()
LAUNCH = "    coalesced<<<"  # the launcher's line in GOOD
FULL, OTHER = 92, 45       # points of step 01 on a CPU, and those of the kernel that the cheats leave alone
OUTSIDE = "/tmp/written-by-a-submission"

failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print(f"FAILED: {what}", flush=True)


def in_launcher(code, before=""):
    return before + GOOD.replace(LAUNCH, f"    {code}\n{LAUNCH}", 1)


def without_launch(code, before=""):
    head, tail = GOOD.split(LAUNCH, 1)
    return before + head + f"    {code}\n" + tail[tail.index("\n") + 1:]


def kernel(body):
    begin, end = GOOD.index("/* Tiles are numbered"), GOOD.index("}\n\nextern")
    return GOOD[:begin] + body + "\n" + GOOD[end:]


HOST_LOOP = """for (int row = 0; row < M; row++)
        for (int col = 0; col < N; col++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++)
                sum += A[row * K + k] * B[k * N + col];
            C[row * N + col] = sum;
        }"""
IDLE = "(void)A; (void)B; (void)C; (void)M; (void)N; (void)K;"

# name: (text of 2_coalesced.cu, the status that its tests get, words of the reason). The first part is refused when it
# is built; what the refusal would have stopped is tried without it in second_line().
CHEATS = {
    "exit(0)": (in_launcher("exit(0);", "#include <stdlib.h>\n"), "failed", "uses exit"),
    "reading the seed": (in_launcher('if (getenv("LAB_SEED")) return cudaSuccess;', "#include <stdlib.h>\n"), "failed",
                         "uses getenv"),
    "memcpy of the reference": (without_launch(
        "double row[4096], scale[4096], *value = row, *unit = scale; long long sizes[8] = {M, N, K};\n"
        "    const void *host[2] = {A, B};\n"
        "    for (int r = 0; r < M; r++) {\n"
        "        matmul_problem.reference(sizes, host, (size_t)r, &value, &unit);\n"
        "        for (int col = 0; col < N; col++)\n            C[r * N + col] = (float)row[col];\n    }"),
        "failed", "uses matmul_problem"),
    "cudaMemcpy to the host": (in_launcher("float a; cudaMemcpy(&a, A, 4, cudaMemcpyDeviceToHost);"), "failed",
                               "uses cudaMemcpy"),
    "a static constructor": (GOOD + "\nstatic volatile int early;\n__attribute__((constructor)) static void begin(void)\n"
                             "{\n    early = 1;\n}\n", "failed", "static constructor"),
    "an indirect function": (in_launcher("if (chosen()) return cudaSuccess;", 'extern "C" int none(void) { return 0; }\n'
                                         'extern "C" int (*pick(void))(void) { return none; }\n'
                                         'extern "C" int chosen(void) __attribute__((ifunc("pick")));\n'),
                             "failed", "an indirect function"),
    "forking": (in_launcher("if (fork() == 0) for (;;) {}", "#include <unistd.h>\n"), "failed", "uses fork"),
    "another program": (in_launcher('system("true");', "#include <stdlib.h>\n"), "failed", "uses system"),
    "dlopen": (in_launcher('dlopen("libcublas.so", 1);', "#include <dlfcn.h>\n"), "failed", "uses dlopen"),
    "cuBLAS": (in_launcher("cublasSgemm_v2();", 'extern "C" int cublasSgemm_v2(void);\n'), "failed",
               "uses cublasSgemm_v2"),
    "cuDNN": (in_launcher("cudnnCreate();", 'extern "C" int cudnnCreate(void);\n'), "failed", "uses cudnnCreate"),
    "CUB": ("#include <cub/cub.cuh>\n" + GOOD, "failed", "a library"),
    "Thrust": ("#include <thrust/device_vector.h>\n" + GOOD, "failed", "a library"),
    "a giant allocation": (GOOD + "\n__device__ float much[1 << 28];\n__global__ void use() { much[threadIdx.x] = 1; }\n",
                           "failed", "global variables"),
    "writing outside its folder": (in_launcher(f'fclose(fopen("{OUTSIDE}", "w"));', "#include <stdio.h>\n"), "failed",
                                   "fopen"),
    "a system call by hand": (in_launcher('asm volatile("syscall" : : "a"(57));'), "failed", "inline assembly"),
    "including the solution": (f'#include "{handout.ROOT}/01_naive_matmul/2_coalesced.cu"\n', "failed",
                               "a file from outside"),
    "including by a macro": (f'#define OTHER "{handout.ROOT}/03_online_softmax/running_softmax.cuh"\n#include OTHER\n' +
                             GOOD, "failed", "no part of the project"),
    "quoting the solution": (f'#define OTHER "{handout.ROOT}/01_naive_matmul/1_uncoalesced.cu"\n#include OTHER\n' + GOOD,
                             "failed", "no part of the project"),
    "counters of its own": (GOOD + '\n#include "backend.h"\nextern "C" bool backend_counters(struct counters *total)\n'
                            "{\n    total->launches = 1;\n    return true;\n}\n", "failed", "defines backend_counters"),
    # These are built and run.
    "printing the success line": (kernel(IDLE + ' if (threadIdx.x == 0) printf("{\\"score\\": 100} [PASS] all\\n");'),
                                  "failed", "poison"),
    "a side stream": (GOOD.replace("0, stream>>>", "0, 0>>>"), "failed", "stream"),
    "an endless loop": (kernel(IDLE + " volatile int again = 1; while (again) {}"), "failed", "time-out"),
    "computing on the host": (without_launch(HOST_LOOP), "failed", "crash"),
    "writing past the end": (GOOD.replace("C[(size_t)row * N + col] = sum;",
                                          "C[(size_t)row * N + col] = sum; C[(size_t)M * N + 40] = sum;"), "failed", ""),
    "changing an input": (GOOD.replace("C[(size_t)row * N + col] = sum;", "C[(size_t)row * N + col] = sum; "
                                       "((float *)A)[(size_t)row * K] = sum;"), "failed", ""),
}
HONEST = {
    "the solution": (GOOD, "passed", ""),
    "the untouched handout": (handout.stub(GOOD), "failed", "poison"),
    "wrong at the edge": (GOOD.replace("row < M && col < N", "row < M && col < N - 1"), "failed", "poison"),
    "a wrong sum": (GOOD.replace("k < K", "k < K - 1"), "failed", "comparison"),
    "not C": (GOOD.replace("float sum", "flaot sum"), "ungraded", "does not compile"),
    "not there": (None, "ungraded", "not in the submission"),
}


def submit(folder, text):
    """A submission of step 01 with this text of its second file."""
    target = pathlib.Path(folder) / "01_naive_matmul"
    target.mkdir(parents=True)
    shutil.copy(handout.ROOT / "01_naive_matmul/1_uncoalesced.cu", target)
    if text is not None:
        (target / "2_coalesced.cu").write_text(text)
    return folder


def judge_results(name, results, status, words):
    tests = [test for test in results["tests"] if test["kernel"] == "coalesced" and test["kind"] != "speed"]
    expected = FULL if status == "passed" else OTHER
    expect(results["score"] == expected, f"{name}: {results['score']} points, not {expected}: {tests}")
    expect(tests[0]["status"] == status, f"{name}: correctness is {tests[0]['status']}, not {status}: {tests[0]['reason']}")
    expect(words in tests[0]["reason"], f"{name}: the reason is '{tests[0]['reason']}', not '{words}'")
    print(f"  {name}: {tests[0]['status']}: {tests[0]['reason'][:110]}", flush=True)


def test_formats():
    """Every format of a result with everything in it: refused by nobody, and each validator refuses a spoilt one."""
    results = {"step": "03_online_softmax", "title": "Step 03", "score": 9, "max": 30, "seconds": 1.5, "tests": [
        {"name": 'a "b" <c>', "kernel": "a", "kind": "correctness", "status": "passed", "points": 9, "max": 10,
         "reason": ""},
        {"name": "d", "kernel": "a", "kind": "sanitizer", "status": "failed", "points": 0, "max": 10,
         "reason": "& \x01 \n\\"},
        {"name": "e", "kernel": "a", "kind": "speed", "status": "ungraded", "points": 0, "max": 10, "reason": "no GPU"}]}
    nothing = {**results, "score": 0, "tests": results["tests"][2:]}
    spoil = {"gradescope": ('"visible"', '"seen"'), "prairielearn": ("true", "1"), "autolab": ('"scores"', '"points"'),
             "classroom50": ('"max-score"', '"max_score"'), "junit": ('failures="1"', 'failures="2"'),
             "table": ("points", "marks")}
    for name, make in formats.FORMATS.items():
        text = make(results)
        expect(schemas.CHECKS[name](text) == 9, f"{name}: another score")
        schemas.CHECKS[name](make(nothing))
        try:
            schemas.CHECKS[name](text.replace(*spoil[name]))
            expect(False, f"{name}: its validator takes anything")
        except (schemas.Invalid, TypeError, KeyError):
            pass
        print(f"  {name}: valid", flush=True)


def test_confine():
    """What a confined process cannot do, whatever it was compiled from."""
    shop = workshop.Workshop()
    attacks = {
        "fork": "return fork() != -1;",
        "vfork": "pid_t child = vfork(); if (child == 0) _exit(0); return child != -1;",
        "clone": "return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) != -1;",
        "exec": 'char *none[] = {"true", 0}; execve("/bin/true", none, 0); return 0;',
        "write": f'return open("{OUTSIDE}", O_WRONLY | O_CREAT, 0600) != -1;',
        "remove": 'return unlink("/tmp/nothing") != -1 || errno != EPERM;',
        "network": "return socket(AF_INET, SOCK_STREAM, 0) != -1;",
        "kill": "return kill(getppid(), 0) != -1;",
        "look at others": 'char name[64]; snprintf(name, 64, "/proc/%d/mem", getppid()); return open(name, O_RDONLY) != -1;',
        "memory": f"char *p = malloc({2 * grade.RUN_MEGABYTES}l << 20); if (p) memset(p, 1, 1l << 20); return p != 0;",
        "environment": "return environ && *environ;",
        "be root": "return geteuid() == 0 || setuid(0) != -1 + (geteuid() != 0 && 0);",
    }
    includes = "".join(f"#include <{name}.h>\n" for name in
                       "errno fcntl signal stdio stdlib string sys/socket sys/syscall unistd".split())
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        for attack, code in attacks.items():
            source, program = pathlib.Path(name) / "attack.c", pathlib.Path(name) / "attack"
            source.write_text(f"{includes}\nint main(void)\n{{\n    {code}\n}}\n")
            workshop.run(["gcc", "-D_GNU_SOURCE", "-w", "-O0", str(source), "-o", str(program)], attack)
            done = subprocess.run([str(shop.base / "labs/confine"), "5", str(grade.RUN_MEGABYTES), "4096", str(program)],
                                  env={"SECRET": "1"}, check=False)
            expect(done.returncode == 0, f"confine lets a process {attack}: status {done.returncode}")
            print(f"  {attack}: stopped" if done.returncode == 0 else f"  {attack}: NOT stopped", flush=True)
        source.write_text("int main(void)\n{\n    for (;;)\n        ;\n}\n")
        workshop.run(["gcc", str(source), "-o", str(program)], "loop")
        done = subprocess.run([str(shop.base / "labs/confine"), "1", "64", "4096", str(program)], check=False)
        expect(done.returncode == -24, f"an endless loop ends with {done.returncode}")
    expect(not os.path.exists(OUTSIDE), "a file was written outside")


def grade_text(text):
    with tempfile.TemporaryDirectory() as folder:
        return grade.Grading("01", submit(folder, text), "cheats").grade()


def test_cheats():
    everything = {**CHEATS, **HONEST}
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        graded = pool.map(grade_text, [text for text, _, _ in everything.values()])
        for (name, (_, status, words)), results in zip(everything.items(), graded):
            judge_results(name, results, status, words)
    expect(not os.path.exists(OUTSIDE), "a file was written outside")


def test_files():
    """What stands in the place of a file: none of it is read, and the other file is graded."""
    def link(path):
        path.symlink_to(handout.ROOT / "01_naive_matmul/2_coalesced.cu")

    def pipe(path):
        os.mkfifo(path)

    def folder(path):
        path.mkdir()

    def large(path):
        path.write_text(GOOD + "/" * grade.LIMIT)

    for make in (link, pipe, folder, large):
        with tempfile.TemporaryDirectory() as name:
            make(pathlib.Path(submit(name, None)) / "01_naive_matmul/2_coalesced.cu")
            judge_results(make.__name__, grade.Grading("01", name, "files").grade(), "ungraded", "not a regular file")
    with tempfile.TemporaryDirectory() as name:
        (pathlib.Path(name) / "01_naive_matmul").symlink_to(handout.ROOT / "01_naive_matmul")
        results = grade.Grading("01", name, "files").grade()
        expect(results["score"] == 0, f"a link to the solution's folder earns {results['score']} points")
        print(f"  a link to the solution's folder: {results['tests'][0]['reason']}", flush=True)


def test_second_line():
    """The same cheats with nobody looking at their symbols: no points either."""
    for name in ("exit(0)", "reading the seed", "memcpy of the reference", "forking", "writing outside its folder",
                 "a static constructor", "a giant allocation"):
        text = CHEATS[name][0]
        if name in ("reading the seed", "a static constructor", "forking"):  # harmless ones would be right
            text = text.replace(GOOD[GOOD.index("/* Tiles"):GOOD.index("}\n\nextern")], IDLE + "\n")
        if name == "a static constructor":
            text = text.replace("early = 1;", "_exit(0);").replace("#include", "#include <unistd.h>\n#include", 1)
        if name == "a giant allocation":
            text = in_launcher("char *much = (char *)malloc(8l << 30); memset(much, 1, 8l << 30);",
                               "#include <stdlib.h>\n#include <string.h>\n")
        with tempfile.TemporaryDirectory() as folder:
            grading = grade.Grading("01", submit(folder, text), "second line", check_symbols=False)
            results = grading.grade()
            test = next(test for test in results["tests"] if test["kernel"] == "coalesced")
            expect(results["score"] <= OTHER, f"{name}: {results['score']} points without a look at its symbols")
            expect(test["status"] == "failed", f"{name}: {test}")
            print(f"  {name}: {test['reason'][:110]}", flush=True)
    expect(not os.path.exists(OUTSIDE), "a file was written outside")


def test_workspace():
    """A kernel of step 05 that asks for a matrix of scores."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "05_flash_v2"
        shutil.copytree(handout.ROOT / "05_flash_v2", target)
        path = target / "7_split_kv.cu"
        text = re.sub(r"return runs > 1 \? .*?;", "return runs > 0 ? 4 * all_rows * (size_t)call->seq_kv * 9 : 0;",
                      path.read_text(), count=1)
        expect(text != path.read_text(), "7_split_kv.cu has changed: the test must, too")
        path.write_text(text)
        results = grade.Grading("05", folder, "workspace").grade()
        test = next(test for test in results["tests"] if test["kernel"] == "split_kv")
        expect(test["status"] == "failed" and "workspace" in test["reason"], f"a matrix of scores was allowed: {test}")
        print(f"  {test['reason'][:110]}", flush=True)


def test_thirty():
    """Four are good, three hang, five are wrong or incomplete, eighteen cheat."""
    everything = {**HONEST, **CHEATS}
    several = ["the solution"] * 4 + ["an endless loop"] * 3
    names = several + [name for name in HONEST if name not in several] + [name for name in CHEATS if name not in several][-18:]
    expect(len(names) == 30, f"{len(names)} submissions")
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for number, name in enumerate(names):
            place = pathlib.Path(folder) / str(number)
            submit(place, everything[name][0])
            jobs.append((name, place, list(formats.FORMATS)[number % len(formats.FORMATS)]))

        def run(job):
            name, place, form = job
            done = subprocess.run([sys.executable, str(handout.ROOT / "tests/labs/grade.py"), "01", str(place),
                                   str(place / "results"), form], env={**os.environ, "LAB_SEED": "thirty"},
                                  stdout=subprocess.DEVNULL, check=False)
            return name, form, done.returncode, (place / "results")

        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            for name, form, status, path in pool.map(run, jobs):
                try:
                    score = schemas.CHECKS[form](path.read_text())
                except Exception as problem:
                    expect(False, f"{name}: no valid {form} file: {problem}")
                    continue
                expected = FULL if everything[name][1] == "passed" else OTHER
                expect(status == 0 and score == expected, f"{name} as {form}: {score} points, not {expected}")
                print(f"  {form:12} {score:>3} points  {name}", flush=True)


TESTS = {"formats": test_formats, "confine": test_confine, "cheats": test_cheats, "files": test_files,
         "second_line": test_second_line, "workspace": test_workspace, "thirty": test_thirty}

if __name__ == "__main__":
    os.environ["BACKEND"] = "cpu"  # no points for speed, whatever this machine has
    grade.hide()
    for wanted in sys.argv[1:] or TESTS:
        print(f"== {wanted}", flush=True)
        TESTS[wanted]()
    print(f"{len(failures)} failed" if failures else "all passed")
    sys.exit(1 if failures else 0)
