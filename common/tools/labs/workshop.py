"""Where submissions are built: a clean copy of the project without any kernel, and what an object file may hold."""
import fcntl
import functools
import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import time

import handout
from sandbox import Limits, Unable
from source import LADDERS

ROOT = handout.ROOT
COMMON = (*(f"problems/{name}" for name in ("matmul", "softmax", "attention")),
          *(f"harness/{name}" for name in ("refusal", "problem", "inputs", "check", "tensor_map", "stopwatch")))
# The judge also has these, and the rows of all steps. What would launch their kernels stays unresolved.
JUDGING = tuple(f"harness/{name}" for name in ("ladder", "cases", "claims", "trial", "device_buffer", "explain"))
ANSWERED = ("backend_counters", "backend_report")  # by the student's process
# A runner knows a problem by this name.
SLIM = [f"-D{name}_problem=lab_{name}" for name in ("matmul", "softmax", "attention")]
OWN = ("case.h", "deferred_launches.h", "deferred_launches_cpu.cpp", "deferred_launches_gpu.c", "runner.h", "runner.c")
C_FLAGS = "-std=c17 -D_GNU_SOURCE -O2 -ffunction-sections -fdata-sections".split()
LIBRARIES = "-lm -ldl".split()

COMPILE_SECONDS, COMPILE_MEGABYTES = 60, 3072
# A file may have this many bytes of each: a kernel has only the memory that it is given. A kernel has at most 48 KiB of shared
# variables; there may be several kernels, and templates.
GLOBAL_VARIABLES, SHARED_VARIABLES = 16 << 10, 512 << 10

# A submission's object file may ask the linker for these: no copies, no symbols, no memory, no streams, no files.
ALLOWED = set("""
    threadIdx blockIdx blockDim gridDim warpSize _GLOBAL_OFFSET_TABLE_ __dso_handle __tls_get_addr __stack_chk_fail
    __gxx_personality_v0 _Unwind_Resume __cxa_guard_acquire __cxa_guard_release __cxa_guard_abort __cxa_atexit
    __cxa_pure_virtual __cxa_throw_bad_array_new_length __assert_fail _ZdlPv _ZdlPvm
    memcpy memset memmove simt_memcpy simt_memset simt_memmove simt_dynamic_shared printf puts putchar
    cudaGetLastError cudaPeekAtLastError cudaGetErrorString cudaGetErrorName cudaFuncSetAttribute
    cudaFuncSetCacheConfig cudaFuncGetAttributes cudaGetDevice cudaDeviceGetAttribute cudaMemsetAsync
    cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel
    cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxPotentialBlockSize
    attention_query_rows matmul_whole_tiles_cost backend_architecture
""".split())
# The CPU backend declares these, but they are not allowed: memory from the heap, which no formula for the workspace counts, and
# names that it uses twice.
NOT_CUDA = {"simt_device_malloc", "simt_device_free", "format", "shuffle"}
ALLOWED_HEADERS = ("harness/refusal.h", "harness/tensor_map.h")  # in common/: a launcher may use what they declare
ALLOWED |= {name + kind for kind in ("", "f") for name in """
    exp exp2 exp10 expm1 log log2 log10 log1p pow sqrt rsqrt cbrt fabs fmax fmin fmod fma floor ceil round rint
    nearbyint trunc tanh erf ldexp scalbn sin cos copysign isnan isinf lround lrint""".split()}
ALLOWED_PREFIXES = ("__tsan_", "__ubsan_handle_", "_ZTVN10__cxxabiv1")
# nvcc's objects also ask for these.
ALLOWED_ON_A_GPU = set("""
    __cudaRegisterFatBinary __cudaRegisterFatBinaryEnd __cudaUnregisterFatBinary __cudaRegisterFunction
    __cudaRegisterVar __cudaPushCallConfiguration __cudaPopCallConfiguration __cudaInitModule
    __cudaLaunchKernel __cudaGetKernel atexit""".split())

# The submission's own text begins after these headers, which hold things that it may not use (see examine_text).
BEGINNING = "the_submission_begins_here"
PRELUDE = f"#include <cassert>\n#include <cmath>\n#include <cstdio>\nextern int {BEGINNING};\n"
ATTRIBUTES = set("""
    aligned packed unused maybe_unused noinline always_inline const pure hot cold may_alias fallthrough nodiscard
    warn_unused_result flatten nothrow leaf noreturn deprecated unavailable used visibility externally_visible malloc
    alloc_size nonnull returns_nonnull format likely unlikely noclone
    access alloc_align format_arg sentinel transparent_union gnu_inline artificial""".split())
WORDS = re.compile(r"\b(?:(?P<asm>asm|__asm(?:__)?)|(?P<attribute>__attribute(?:__)?))\b|(?P<brackets>(?:\[|<:)\s*(?:\[|<:))|"
                   r"\b(?P<builtin>__builtin_(?:ia32|apply|return|longjmp|setjmp|eh_|unwind|frame|dwarf|init|va_arg_pack|"
                   r"nontemporal)\w*|__seg_\w+|__transaction\w*|__tsan_\w+|__ubsan_\w+|thread_local|_Thread_local|__thread)\b|"
                   r"^[ \t]*(?:\#|%:)[ \t]*pragma(?P<pragma>.*)", re.M)
WATCHED = re.compile(r"^  __builtin___tsan_(volatile_|unaligned_|vptr_)*(read|write|update)(\d+|_range)? \(", re.M)
# GCC puts these in place of a call. Nothing watches what they read and write.
UNWATCHED = re.compile(r"__builtin_(mem|str|stp|b(copy|cmp|zero)|r?index)")
# These are what simtcc makes of __shared__, and how CUDA's headers name dynamic shared memory.
SHARED = re.compile(r'__attribute__\(\((?:used, )?aligned\(16\)\)\) static __thread\b|\b__asm__\s*\("simt_dynamic_shared"\)')
LINE = re.compile(r'^# \d+ "(?:[^"\\]|\\.)*"(?: [1-4])*$', re.M)  # where the text below comes from
# Strings hide nothing and must not seem to. Pragmas, names and numbers are here for their prefixes and quotes.
LITERAL = re.compile(r"""(?:u8|[uUL])?R"(?P<end>[^()\\\s]{0,16})\(.*?\)(?P=end)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|"""
                     r"""(?P<kept>^[ \t]*(?:\#|%:)[^\n]*|\.?\d(?:[eEpP][+-]|'?[\w.])*|[A-Za-z_]\w*)""", re.S | re.M)
PRAGMAS = re.compile(r"\s*(unroll\b.*|once|nv_\w+.*|(end)?region.*|GCC\s+(unroll|ivdep|diagnostic|system_header)\b.*|"
                     r"GCC\s+visibility\s+(push\s*\(\s*default\s*\)|pop))\s*$")


class Refused(Exception):
    """The submission does what a kernel has no business doing."""


class NotBuilt(Exception):
    """The submission's file does not compile or does not exist."""


def stamp():
    """Changes when anything changes that the copy is made of, wherever it is and whenever it was checked out."""
    digest = hashlib.sha256()
    files = [path for folder in ("common", *handout.STEPS.values()) for path in sorted((ROOT / folder).rglob("*"))]
    for path in files:
        if not path.is_file() or path.suffix == ".pyc":
            continue
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


class Workshop:
    """
    Makes the clean copy once, for all gradings: common/, the headers of each step, and everything else of it that is not handed
    in. It has no solution in it.
    """

    def __init__(self):
        name = hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]
        self.top = pathlib.Path(tempfile.gettempdir()) / f"flash-labs-{os.geteuid()}-{name}"
        self.top.mkdir(mode=0o755, exist_ok=True)
        status = self.top.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise Unable(f"{self.top} is not a folder of this user's alone")
        self.base = self.top / stamp()
        with open(self.top / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.base.exists():
                finished, self.base = self.base, self.base.with_suffix(".new")
                shutil.rmtree(self.base, ignore_errors=True)
                self.base.mkdir()
                self._make()
                self.base.rename(finished)
                self.base = finished
                self._remove_old()
        self.cache = self.base / "cache"

    def _remove_old(self):
        """Removes older copies of the project. A grading may still be using one that is younger than a day."""
        for path in self.top.iterdir():
            if re.fullmatch(r"[0-9a-f]{16}(\.new)?|grading-.*", path.name) and path != self.base and \
                    time.time() - path.stat().st_mtime > 86400:
                shutil.rmtree(path, ignore_errors=True)

    def _make(self):
        run([str(ROOT / "common/simt/simtcc"), "--runtime"], "the CPU backend")
        (self.base / "cache").mkdir(mode=0o700)
        shutil.copytree(ROOT / "common", self.base / "common", ignore=shutil.ignore_patterns("__pycache__", "tools"))
        for step in handout.STEPS.values():
            for path in given_files(step):
                (self.base / step / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / step / path, self.base / step / path)
        (self.base / "common/tools/labs").mkdir(parents=True)
        for name in OWN:
            shutil.copy2(ROOT / "common/tools/labs" / name, self.base / "common/tools/labs")
        (self.base / "build/simt").mkdir(parents=True)
        for name in ("libsimt.a", "simt-translate"):
            shutil.copy2(ROOT / "build/simt" / name, self.base / "build/simt")
        (self.base / "labs").mkdir()
        (self.base / "labs/prelude.h").write_text(PRELUDE)
        self._compile_own()
        for path in (self.base, *self.base.rglob("*")):  # whatever the umask, another user's compilers read this
            if path.name != "cache":
                path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444) & ~0o022)

    def _compile_own(self):
        labs = self.base / "common/tools/labs"
        sources = [self.base / "common" / f"{name}.c" for name in COMMON]
        for source in (*sources, labs / "runner.c"):
            run(["gcc", *C_FLAGS, *self.include, "-c", str(source), "-o", str(self.object(source.stem))], source.name)
        for step in handout.STEPS.values():
            compiled = self._compile_entry(step, self.base / "labs", self.include)
            run(["ld", "-r", *compiled, "-o", str(self.object(step))], "ld")
        run(["g++", "-std=c++17", "-O2", *self.include, "-c", str(labs / "deferred_launches_cpu.cpp"),
             "-o", str(self.object("deferred_launches_cpu"))], "deferred_launches_cpu.cpp")
        run(["ar", "rcs", str(self.base / "labs/libcommon.a"), *(str(self.object(path.stem)) for path in sources)],
            "libcommon.a")
        self._make_judge()
        harness = [self.runtime, str(self.base / "labs/libcommon.a"), *(str(self.object(name)) for name in ("runner", "deferred_launches_cpu"))]
        names = {line.split()[0] for path in harness for line in nm("-g", "--defined-only", path)
                 if len(line.split()) > 2 and line.split()[1] in "TDBR"}
        (self.base / "labs/protected").write_text("\n".join(sorted(names | {"main"})))
        # A kernel may use what the CPU backend's headers declare. The rest is for its own files.
        declared = set(re.findall(r"\b(\w+)\s*\(", "".join(
            path.read_text() for path in (self.base / "common/simt/include").rglob("*") if path.is_file()))) - NOT_CUDA
        helpers = set(re.findall(r"\b(\w+)\s*\(", "".join(
            (self.base / "common" / name).read_text() for name in ALLOWED_HEADERS)))
        backend = sorted(name for name in names if name.startswith(("simt_", "_ZN4simt", "_ZN3ptx")))
        plain = run(["c++filt", *backend], "c++filt").splitlines()
        (self.base / "labs/allowed").write_text("\n".join(
            [name for name, text in zip(backend, plain) if re.split(r"[(\[]", text)[0].split("::")[-1] in declared] +
            sorted(names & helpers)))

    def _make_judge(self):
        """Compiles the judge from the project itself: a row's plan may lie in a file that students hand in."""
        include = [f"-I{ROOT / 'common/simt/include'}", f"-I{ROOT / 'common'}", f"-I{ROOT}"]
        each = "-DEACH_STEP(X)=" + " ".join(f"X(step_{number})" for number in handout.STEPS)
        sources = [*(ROOT / "common" / f"{name}.c" for name in (*COMMON, *JUDGING)), ROOT / "common/tools/labs/judge.c",
                   *(ROOT / step / f"{number}_step.c" for number, step in handout.STEPS.items())]
        objects = [str(self.base / "labs" / f"judge.{source.stem}.o") for source in sources]
        for source, made in zip(sources, objects):
            run(["gcc", *C_FLAGS, "-fno-pie", each, *include, "-c", str(source), "-o", made], source.name)
        run(["g++", "-no-pie", "-pthread", *(f"-Wl,--wrap={name}" for name in ANSWERED), "-Wl,--unresolved-symbols=ignore-all",
             *objects, self.runtime, *LIBRARIES, "-o", str(self.base / "labs/judge")], "judge")

    @property
    def include(self):
        return [f"-I{self.base / 'common/simt/include'}", f"-I{self.base / 'common'}", f"-I{self.base}"]

    def object(self, name):
        return self.base / "labs" / f"{name}.o"

    @property
    def runtime(self):
        return str(self.base / "build/simt/libsimt.a")

    def _compile_entry(self, step, folder, include):
        """Builds objects of a step's rows, and of a runner's main() (runner.h) with them."""
        number, stubs = step[:2], folder / "stubs"
        for name in handout.lab_of(step)["files"]:  # a row's plan may include a file that is handed in; a stub of it suffices
            if name.endswith((".h", ".cuh")):
                (stubs / step / name).parent.mkdir(parents=True, exist_ok=True)
                (stubs / step / name).write_text(handout.stub(pathlib.Path(step) / name))
        main = folder / f"{number}_main.c"
        main.write_text(f'#include "{step}/{number}_step.h"\n#include "tools/labs/runner.h"\n\n'
                        f"int main(void)\n{{\n    return runner_main(&step_{number});\n}}\n")
        objects = []
        for source in (main, self.base / step / f"{number}_step.c"):
            objects.append(str(folder / f"{source.stem}.o"))
            run(["gcc", *C_FLAGS, *SLIM, *include, f"-I{stubs}", "-c", str(source), "-o", objects[-1]], source.name)
        return objects

    @functools.lru_cache(None)
    def wanted(self, step):
        """Returns the functions that a step's table names."""
        return {name for name in undefined(self.object(step)) if re.match("matmul_|softmax_|attention_", name)} - self.protected()

    @functools.lru_cache(None)
    def protected(self):
        """Returns names of the harness and of the CPU backend."""
        return set((self.base / "labs/protected").read_text().split())

    def missing(self, step, objects):
        """Returns functions of the step's other kernels that these objects call."""
        called = set().union(*(undefined(path) for path in objects))
        return called & self.wanted(step) - set().union(*(defined(path) for path in objects))

    # ------------------------------------------------------------------------------------------------------------------

    def link(self, step, objects, output):
        """Links a runner on the CPU whose table has these objects' functions, and null for those of other kernels."""
        there = set().union(*(defined(path) for path in objects))
        missing = [f"-Wl,--defsym,{name}=0" for name in sorted(self.wanted(step) - there)]
        done = subprocess.run(
            ["g++", "-static", "-no-pie", "-pthread", "-w", "-Wl,--gc-sections", "-Wl,--wrap=simt_run",
             "-Wl,--wrap=cudaMemsetAsync", str(self.object(step)), str(self.object("runner")),
             str(self.object("deferred_launches_cpu")), *map(str, objects), *missing, str(self.base / "labs/libcommon.a"),
             self.runtime, *LIBRARIES, "-o", str(output)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            names = sorted(set(re.findall(r"(?:definition of|undefined reference to) [`']([\w:~<>, ]{1,60})", done.stdout.decode(errors="replace"))))
            raise NotBuilt("the kernel does not link" + (f": {', '.join(names[:5])}" if names else ""))
        output.chmod(0o755)

    def compile(self, box, folder, step, name, wall, check_symbols=True):
        """
        Returns the object file of one of the .cu files in `folder`/source/`step`. A file that was compiled before, with the same
        headers, is not compiled again. Raises NotBuilt or Refused.
        """
        source = folder / "source"
        digest = hashlib.sha256(f"{name} {check_symbols} {box.mode}".encode())
        for path in sorted((source / step).rglob("*.*")):
            if path.suffix in (".cuh", ".h") or path == source / step / name:
                digest.update(f"\n{path.relative_to(source)} {path.stat().st_size}\n".encode() + path.read_bytes())
        kept = self.cache / f"{digest.hexdigest()}.o"
        complaint = kept.with_suffix(".refused")
        if complaint.exists():
            raise Refused(complaint.read_text())
        if kept.exists():
            return kept
        out = pathlib.Path(tempfile.mkdtemp(dir=folder))
        box.own(out)
        ending = box.run([str(self.base / "common/simt/simtcc"), "--check", "-Xcompiler", f"-fno-ivopts,-fdump-tree-optimized={out / 'calls'}", "-w",
                          "-Xcompiler", "-fno-diagnostics-show-caret,-fmax-errors=5", "--text", str(out / "text"), "-include",
                          str(self.base / "labs/prelude.h"), f"-I{self.base / 'common'}", f"-I{source}",
                          "-c", str(source / step / name), "-o", str(out / "object.o")],
                         "build", Limits(COMPILE_SECONDS, wall, COMPILE_MEGABYTES), see=[self.base, source], write=out,
                         cwd=str(source), environment={"TMPDIR": str(out)})
        if ending.timed_out:
            raise NotBuilt(f"{name}: the compiler ran out of time")
        if ending.status != 0:
            raise NotBuilt(f"{name} does not compile: {self.complaints(ending.output, source / step)}")
        try:
            self.examine_text(name, read_regular(out / "text").decode(errors="replace"), (self.base, source))
            self.examine_calls(name, read_regular(out / "calls").decode(errors="replace"))
            if check_symbols:
                self.examine(out / "object.o", ALLOWED, step)
        except Refused as refusal:
            complaint.write_text(str(refusal))
            raise
        made = self.cache / f"{digest.hexdigest()}.{os.getpid()}"
        self.isolate(out / "object.o", made, step)
        if not defined(made):
            made.unlink()
            raise NotBuilt(f"{name} does not define {' or '.join(sorted(self.wanted(step))[:12])}")
        made.rename(kept)
        return kept

    def isolate(self, source, target, step):
        """
        Leaves visible only what the step's table and its other files name. Whatever else the file defines is its own, and
        replaces nothing in the harness or in another file.
        """
        keep = sorted(self.wanted(step) | self.declared(step))
        run(["ld", "-r", "--force-group-allocation", str(source), "-o", str(target)], "ld")
        run(["objcopy", *(f"--keep-global-symbol={name}" for name in keep), str(target)], "objcopy")

    @functools.lru_cache(None)
    def backend(self):
        """Returns what a submission may use of the CPU backend and of common/."""
        return set((self.base / "labs/allowed").read_text().split())

    @functools.lru_cache(None)
    def declared(self, step):
        """Returns functions that the step's headers declare for its other files to call."""
        return set(re.findall(r"\b(\w+)\(", "".join(path.read_text() for path in (self.base / step).glob("*_step.h"))))

    @staticmethod
    def complaints(output, folder):
        """Returns what the compiler says about the submission's own lines, or about a header of the project, without quoting any
        file's lines."""
        for place in (folder, folder.parents[2]):
            found = re.findall(rf"^{re.escape(str(place))}/(?:[\w-]+/)*([\w.-]+:\d+(?::\d+)?: (?:fatal )?error: .*)$",
                               output.decode(errors="replace"), re.M)
            if found:
                break
        return "; ".join(dict.fromkeys(line[:200] for line in found if line))[:600] or "the compiler gave up"

    # ------------------------------------------------------------------------------------------------------------------
    # What is refused

    @staticmethod
    def examine_text(name, text, folders):
        """
        Refuses what blinds the checked build or escapes from C. `text` is what the compiler proper read, so no macro, pasted
        token or comment hides anything: attributes, intrinsics and assembly are in plain sight.
        """
        text = text.rpartition('\n# 1 "simt-translate"\n')[0]
        roots = (*(f"{folder}/" for folder in folders), "/usr/include/", "/usr/lib/", "/usr/local/include/", "<")
        for path in set(re.findall(r'^# \d+ "((?:[^"\\]|\\.)*)"', text, re.M)):
            if not (os.path.normpath(path) + "/").startswith(roots):
                raise Refused(f"{name} includes {path[:100]}, which is no part of the project")
            if path.endswith((".c", ".cu", ".cpp")) and not os.path.normpath(path).endswith("/" + name):
                raise Refused(f"{name} includes {os.path.basename(path)[:100]}, which is compiled by itself; what files share goes into a header")
        own = SHARED.sub(" ", LINE.sub("", text.partition(BEGINNING)[2]))
        own = LITERAL.sub(lambda found: found["kept"] or '""', own)
        for found in WORDS.finditer(own):
            if found["asm"]:
                raise Refused(f"{name} uses inline assembly, which a submission may not")
            if found["builtin"]:
                raise Refused(f"{name} uses {found['builtin'][:60]}, which CUDA does not have")
            if found["pragma"] is not None and not PRAGMAS.match(found["pragma"]):
                raise Refused(f"{name} uses #pragma{found['pragma'][:40]}, which a submission may not")
            if found["attribute"] or found["brackets"]:
                for attribute in attribute_names(own, found.end(), bool(found["attribute"])):
                    if attribute.strip("_") not in ATTRIBUTES:
                        raise Refused(f"{name} uses the attribute {attribute[:40]}, which a submission may not")

    @staticmethod
    def examine_calls(name, dump):
        """
        Refuses what reads or writes global memory where nothing watches it: functions that are compiled without watching,
        assembly, structs that a pointer's target passes by value, and copies that GCC expands. `dump` is the program as GCC
        compiles it.
        """
        for function in ("\n" + dump).split("\n;; Function ")[1:]:
            head, _, body = function.partition("\n  <bb ")
            own = set(re.findall(r"([\w.$#]+)(?:\[[^\]]*\])*[;,)]", re.sub(r"^  static .*$", "", head, flags=re.M))) | {"<retval>"}
            sides = [side for line in re.findall(r"^  (.* = .*);", body, re.M) for side in line.split(" = ")]
            if "__asm__" in body or not LAUNCH.match(head) and not WATCHED.search(body) and any(behind_pointer(side, own) for side in sides):
                raise Refused(f"{name}: {function.split()[0][:60]}() is compiled so that the checked build cannot watch it")
            for result, callee, arguments in CALL.findall(body):
                if LAUNCH.match(head) and re.fullmatch(r"_\d+", callee):
                    continue  # a kernel gets its parameters
                if UNWATCHED.match(callee) or any(behind_pointer(value, own) for value in [result, *arguments.split(", ")]):
                    raise Refused(f"{name}: {function.split()[0][:60]}() hands memory to {callee[:60]}() where the checked build cannot "
                                  "watch it: copy it to a variable first, or pass a pointer")

    def examine(self, output, allowed, step):
        """
        Refuses an object that asks for more than it may, or that replaces part of the harness. Tables that are computed before
        main() are welcome: the process has no input by then, and the list of symbols holds there, too.
        """
        strong, asked = set(), set()
        for line in nm(str(output)):
            name, kind = line.split()[:2]
            if kind == "i":
                raise Refused("an indirect function, whose resolver runs before main()")
            (strong if kind in "TDBRVWuC" else asked if kind in "Uvw" else set()).add(name)
        # These are named objects: the checked build has .data of its own. Here shared memory is thread-local.
        found = re.findall(r"^ *\d+: [0-9a-f]+ +(\w+) (OBJECT|TLS) +\w+ +\w+ +(?!UND|ABS)\w+ ",
                           run(["readelf", "-sW", str(output)], "readelf"), re.M)
        for kind, words, most in (("OBJECT", "global", GLOBAL_VARIABLES), ("TLS", "shared", SHARED_VARIABLES)):
            refuse_variables(sum(int(size, 0) for size, what in found if what == kind), words, most)
        taken = (strong & self.protected()) - self.wanted(step)
        if taken:
            raise Refused(f"defines {', '.join(sorted(taken)[:5])}, which belongs to the harness")
        foreign = {name for name in asked - allowed - self.wanted(step) - self.declared(step) - self.backend()
                   if not name.startswith(ALLOWED_PREFIXES)}
        if foreign:
            raise Refused(f"uses {', '.join(sorted(foreign)[:5])}, which a kernel may not use")

    # ------------------------------------------------------------------------------------------------------------------

    def build_for_gpu(self, box, folder, step, files, output, wall, trusted=False):
        """Builds a runner of these .cu files in folder/source/step for the device of this machine."""
        nvcc, architecture = device()
        home = pathlib.Path(nvcc).resolve().parents[1]
        out = pathlib.Path(tempfile.mkdtemp(dir=folder))
        if not trusted:
            box.own(out)
        objects = []
        for name in files:
            source = folder / "source" / step / name
            needed = re.match(r"// needs: sm_(\d+a?)", (ROOT / step / name).read_text())
            chosen = architecture
            if needed and (needed[1].endswith("a") or int(needed[1]) > int(architecture.rstrip("a"))):
                chosen = needed[1]
            command = [nvcc, "-std=c++17", "-O3", "-w", "-Xptxas", "-v", f"-gencode=arch=compute_{chosen},code=sm_{chosen}",
                       f"-I{self.base / 'common/device/gpu'}",
                       f"-I{self.base / 'common'}", f"-I{folder / 'source'}", "-c", str(source), "-o", str(out / "object.o")]
            if trusted:
                run(command, name)
            else:
                ending = box.run(command, "build", Limits(2 * COMPILE_SECONDS, wall, 4 * COMPILE_MEGABYTES),
                                 see=[self.base, folder / "source", home], write=out, cwd=str(out),
                                 environment={"TMPDIR": str(out)})
                if ending.status != 0:
                    raise NotBuilt(f"{name} does not compile for the GPU: {self.complaints(ending.output, folder / 'source' / step)}")
                self.examine(out / "object.o", ALLOWED | ALLOWED_ON_A_GPU, step)
                refuse_variables(sum(map(int, re.findall(rb"(\d+) bytes gmem", ending.output))), "global", GLOBAL_VARIABLES)
            made = folder / f"{pathlib.Path(name).name}.{output.name}.o"
            self.isolate(out / "object.o", made, step)
            objects.append(made)
        labs = self.base / "common/tools/labs"
        include = ["-isystem", str(home / "include"), f"-I{self.base / 'common'}", f"-I{self.base}"]
        compiled = self._compile_entry(step, folder, include)
        for source in (*(self.base / "common" / f"{name}.c" for name in (*COMMON, "device/backend")), labs / "runner.c",
                       labs / "deferred_launches_gpu.c"):
            compiled.append(str(output.with_suffix(f".{source.stem}.o")))
            run(["gcc", *C_FLAGS, *include, "-c", str(source), "-o", compiled[-1]], source.name)
        there = set().union(*(defined(path) for path in objects))
        run([nvcc, f"-gencode=arch=compute_{architecture},code=sm_{architecture}", *map(str, objects), *compiled,
             *(word for name in sorted(self.wanted(step) - there) for word in ("-Xlinker", f"--defsym={name}=0")),
             "-Xlinker", "--gc-sections", "-o", str(output)], "link for the GPU")
        output.chmod(0o755)


def refuse_variables(size, kind, most):
    if size > most:
        raise Refused(f"{size} bytes of {kind} variables; a kernel's memory is what it is given")


def attribute_names(source, begin, parenthesised):
    """Returns the attributes' names in `((aligned(16), unused)) int x` or `gnu::unused, nodiscard]] int x` behind `begin`."""
    while source[begin:begin + 1].isspace():
        begin += 1
    depth, end = 0, begin
    while end < len(source):
        depth += (source[end] in "([{") - (source[end] in ")]}")
        if depth < (1 if parenthesised else 0):
            break
        end += 1
    if parenthesised and end == begin:
        return [source[begin:begin + 40]]
    text = source[begin:end].lstrip("( \n\t") if parenthesised else source[begin:end]
    while re.search(r"\([^()]*\)", text):
        text = re.sub(r"\([^()]*\)", "", text)
    text = re.sub(r"^\s*using\s+\w+\s*:", "", text)
    return [name.split("::")[-1].strip() for name in re.split(r"[,()]", text) if name.strip()]


# In GCC's dump these are simtcc's call of a kernel, and result = name (arguments);
LAUNCH = re.compile(r"simt::Invocation<std::integer_sequence<long unsigned int[^\n<>]*>, void \(\*\)\([^\n]*>::invoke "
                    r"\(_ZN4simt10InvocationISt16integer_sequenceImJ(?:Lm\d+E)*EEPFv\w+, ")
CALL = re.compile(r"^  (?:([^=\n]+) = )?([\w:~$.]+(?:<[^\n]*>)?|OBJ_TYPE_REF\([^\n]*\)) \(([^\n]*)\);(?: \[[^\n]*\])?$", re.M)


def behind_pointer(value, own):
    """Returns whether an operand of GCC's dump is what a pointer points to, other than one of the function's `own` variables."""
    if value.startswith(("*", "MEM")) or ("->" in value and not value.startswith("&")):
        target = re.search(r"\)&([\w.$#]+|<retval>)", value)
        return not target or target[1] not in own
    return False


def read_regular(path, most=64 << 20, folder=None):
    """Reads a file that another user made: no link, no pipe, not too long. The path begins at the descriptor `folder`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotBuilt(f"{path.name} is not a regular file")
        return file.read(most)


def given_files(step):
    """Returns the step's files that a kernel or a row needs and nobody hands in."""
    files = handout.lab_of(step)["files"]
    return [name for name in files_of_ladders(handout.ROOT / step)
            if name.endswith((".cu", ".cuh", ".h", ".c")) and name not in files and name != "main.c"]


def files_of_ladders(folder):
    """Returns names of the files in a step's folder and in those of its ladders."""
    return [str(path.relative_to(folder)) for ladder in LADDERS for path in sorted(folder.glob(f"{ladder}*.*"))]


def device():
    """Returns (nvcc, architecture) for this machine's GPU, as in ("/usr/local/cuda/bin/nvcc", "90a"), or None."""
    if os.environ.get("BACKEND") == "cpu":
        return None
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    query = shutil.which("nvidia-smi")
    if not nvcc or not query:
        return None
    done = subprocess.run([query, "--query-gpu=compute_cap", "--format=csv,noheader"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    found = re.match(r"(\d+)\.(\d+)", done.stdout)
    if done.returncode != 0 or not found:
        return None
    return nvcc, found[1] + found[2] + ("a" if found[0] == "9.0" else "")


def run(command, what):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise Unable(f"{what}: {done.stdout.decode(errors='replace').strip()[-800:]}")
    return done.stdout.decode(errors="replace")


def nm(*arguments):
    return [line for line in run(["nm", "-P", *arguments], "nm").splitlines() if len(line.split()) > 1]


def defined(path):
    return {line.split()[0] for line in nm("-g", "--defined-only", str(path))}


def undefined(path):
    return {line.split()[0] for line in nm("-u", str(path))}
