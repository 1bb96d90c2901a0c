"""Where submissions are built and run: a clean copy of the project without any solution, and the confined processes."""
import fcntl
import hashlib
import os
import pathlib
import re
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import time

import handout

ROOT = handout.ROOT
NOBODY = 65534
BUILDS = ("cpu", "check")
COMMON = ("matmul", "softmax", "attention", "refusal", "problem", "inputs", "check", "tensor_map", "stopwatch")
OWN = ("case.h", "keeper.h", "keeper_cpu.cpp", "keeper_gpu.c", "runner.h", "runner.c", "judge.c", "confine.c")
C_FLAGS = "-std=c17 -D_GNU_SOURCE -O2 -ffunction-sections -fdata-sections".split()
LIBRARIES = "-lm -ldl".split()

COMPILE_SECONDS, COMPILE_MEGABYTES = 120, 3072

# What a student's object file may ask the linker for. Everything else is refused by name.
ALLOWED = set("""
    threadIdx blockIdx blockDim gridDim warpSize _GLOBAL_OFFSET_TABLE_ __dso_handle __tls_get_addr __stack_chk_fail
    __gxx_personality_v0 _Unwind_Resume __cxa_guard_acquire __cxa_guard_release __cxa_guard_abort __assert_fail
    memcpy memset memmove memcmp printf puts putchar
    cudaGetLastError cudaPeekAtLastError cudaGetErrorString cudaGetErrorName cudaFuncSetAttribute
    cudaFuncSetCacheConfig cudaFuncGetAttributes cudaGetDevice cudaDeviceGetAttribute cudaMemsetAsync
    cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel
    cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxPotentialBlockSize
    matmul_check_arguments softmax_check_arguments attention_check_arguments attention_query_rows
    refuse require_architecture require_size require_blocks require_pointer require_disjoint
    backend_architecture tensor_map_of_halves
""".split())
ALLOWED |= {name + kind for kind in ("", "f") for name in """
    exp exp2 exp10 expm1 log log2 log10 log1p pow sqrt rsqrt cbrt fabs fmax fmin fmod fma floor ceil round rint
    nearbyint trunc tanh erf ldexp frexp scalbn sin cos copysign isnan isinf lround lrint""".split()}
ALLOWED_PREFIXES = ("simt_", "__tsan_", "__ubsan_handle_")

FORBIDDEN_TEXT = (
    (re.compile(r"\b_*asm_*\b"), "inline assembly"),
    (re.compile(r"##|%:%:"), "token pasting (##)"),
    (re.compile(r"\bincbin\b|#\s*embed\b"), "embedding a file"),
    (re.compile(r"#\s*include\s*[\"<]\s*(/|[^\">\n]*\.\.)"), "a file from outside (#include with / or ..)"),
    (re.compile(r"#\s*include\s*[\"<]\s*(cub|thrust|cutlass|cute|cublas|cudnn|curand|cusparse)\w*[/.]"), "a library"),
)


class Refused(Exception):
    """The submission does what a kernel has no business to do."""


class NotBuilt(Exception):
    """The submission's file does not compile or is not there."""


class Unable(Exception):
    """The grader itself, or this machine, cannot do it."""


def stamp():
    """Changes when anything does that the copy is made of."""
    digest = hashlib.sha256(str(ROOT).encode())
    files = [ROOT / "tests/labs" / name for name in (*OWN, "handout.py", "workshop.py")]
    for folder in ("common", *handout.STEPS.values()):
        files += [path for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    for path in files:
        digest.update(f"{path.relative_to(ROOT)} {path.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()


class Workshop:
    """The clean copy, made once and shared by all gradings: common/, stubs of every step, and what they need."""

    def __init__(self):
        name = hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]
        top = pathlib.Path(tempfile.gettempdir()) / f"flash-labs-{os.geteuid()}-{name}"
        top.mkdir(mode=0o755, exist_ok=True)
        status = top.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise Unable(f"{top} is not a folder of this user's alone")
        finished = top / stamp()[:16]
        with open(top / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not finished.exists():
                self.base = finished.with_suffix(".new")
                shutil.rmtree(self.base, ignore_errors=True)
                self.base.mkdir(mode=0o755)
                self._make()
                self.base.rename(finished)
                self._remove_old(top, finished)
        self.base, self.cache = finished, finished / "cache"

    @staticmethod
    def _remove_old(top, kept):
        """Copies of the project as it was; a grading may still be using one that is younger than a day."""
        for path in top.iterdir():
            if path.is_dir() and path != kept and time.time() - path.stat().st_mtime > 86400:
                shutil.rmtree(path, ignore_errors=True)

    def _make(self):
        run([str(ROOT / "common/simt/simtcc"), "--runtime"], "the CPU backend")
        (self.base / "cache").mkdir(mode=0o700)
        shutil.copytree(ROOT / "common", self.base / "common", copy_function=shutil.copy2)
        for step in handout.STEPS.values():
            for path in sorted((ROOT / step).iterdir()):
                if path.suffix in (".cu", ".cuh", ".h"):
                    (self.base / step).mkdir(exist_ok=True)
                    (self.base / step / path.name).write_text(handout.copied(path, path.read_text(), [step]))
        (self.base / "tests/labs").mkdir(parents=True)
        for name in OWN:
            shutil.copy2(ROOT / "tests/labs" / name, self.base / "tests/labs")
        runtime = self.base / "build/simt"
        shutil.copytree(ROOT / "build/simt", runtime, copy_function=shutil.copy2,
                        ignore=shutil.ignore_patterns("tmp.*", "lock"))
        (runtime / "lock").touch()
        (runtime / "lock").chmod(0o666)
        runtime.chmod(0o1777)  # compilers work here as an unprivileged user
        (self.base / "labs").mkdir()
        self._compile_own()

    def _compile_own(self):
        include = [f"-I{self.base / 'common/simt/include'}", f"-I{self.base / 'common'}", f"-I{self.base}"]
        labs = self.base / "tests/labs"
        sources = [self.base / "common" / f"{name}.c" for name in COMMON]
        for source in (*sources, labs / "runner.c", labs / "judge.c", labs / "confine.c"):
            run(["gcc", *C_FLAGS, *include, "-c", str(source), "-o", str(self.object(source.stem))], source.name)
        run(["g++", "-std=c++17", "-O2", *include, "-c", str(labs / "keeper_cpu.cpp"),
             "-o", str(self.object("keeper_cpu"))], "keeper_cpu.cpp")
        run(["ar", "rcs", str(self.base / "labs/libcommon.a"), *(str(self.object(path.stem)) for path in sources)],
            "libcommon.a")
        run(["gcc", str(self.object("confine")), "-o", str(self.base / "labs/confine")], "confine")
        run(["g++", "-pthread", str(self.object("judge")), str(self.base / "labs/libcommon.a"), self.runtime(),
             *LIBRARIES, "-o", str(self.base / "labs/judge")], "judge")

    def object(self, name):
        return self.base / "labs" / f"{name}.o"

    def runtime(self):
        return str(self.base / "build/simt/libsimt.a")

    def protected_names(self):
        """Names that belong to the harness, the CPU backend or the C library: nobody may define them anew."""
        if not hasattr(self, "_protected"):
            names = defined(self.runtime())
            names |= defined(str(self.base / "labs/libcommon.a")) | defined(str(self.object("runner")))
            names |= defined(str(self.object("keeper_cpu")))
            libc = run(["gcc", "-print-file-name=libc.so.6"], "libc").strip()
            names |= {line.split()[0].split("@")[0] for line in run(["nm", "-D", "-P", "--defined-only", libc],
                                                                    "libc").splitlines()}
            self._protected = names
        return self._protected

    @staticmethod
    def entry(step, table, output):
        """The main() of a runner (runner.h) for a step's table."""
        entry = output.with_suffix(".entry.c")
        entry.write_text(f'#include "{step}/{step[:2]}_step.h"\n#include "tests/labs/runner.h"\n\n'
                         f"int main(void)\n{{\n    return runner_main(LAB_CALLS({table}), {table});\n}}\n")
        return entry

    def link(self, step, build, table, objects, output):
        """A runner with these objects as its kernels, on the CPU."""
        entry = self.entry(step, table, output)
        include = [f"-I{self.base / 'common/simt/include'}", f"-I{self.base / 'common'}", f"-I{self.base}"]
        run(["gcc", *C_FLAGS, *include, "-c", str(entry), "-o", str(entry.with_suffix(".o"))], "entry")
        run(["g++", "-pthread", "-Wl,--gc-sections", "-Wl,--wrap=simt_run", "-Wl,--wrap=cudaMemsetAsync",
             str(entry.with_suffix(".o")), str(self.object("runner")), str(self.object("keeper_cpu")),
             *(str(name) for name in objects), str(self.base / "labs/libcommon.a"), self.runtime(), *LIBRARIES,
             "-o", str(output)], "link")
        output.chmod(0o755)

    def build_for_gpu(self, folder, step, table, output, trusted=False):
        """A runner of the kernels in folder/step for the device of this machine."""
        compiler = (lambda command, _: subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                                      check=False)) if trusted else confined_compiler
        nvcc, architecture = device()
        home = pathlib.Path(nvcc).resolve().parents[1]
        objects = folder / "objects"
        for source in sorted((folder / step).glob("*.cu")):
            needed = re.match(r"// needs: sm_(\d+a?)", source.read_text())
            chosen = architecture
            if needed and (needed[1].endswith("a") or int(needed[1]) > int(architecture.rstrip("a"))):
                chosen = needed[1]
            done = compiler([nvcc, "-std=c++17", "-O3", "-w", f"-gencode=arch=compute_{chosen},code=sm_{chosen}",
                             f"-I{self.base / 'common'}", f"-I{self.base}", "-c", str(source), "-o",
                             str(objects / f"{source.name}.gpu.o")], folder)
            if done.returncode != 0:
                raise NotBuilt(f"{source.name} does not compile for the GPU: {done.stdout.decode(errors='replace')[-400:]}")
        include = ["-isystem", str(home / "include"), f"-I{self.base / 'common'}", f"-I{self.base}"]
        labs = self.base / "tests/labs"
        own = [self.base / "common" / f"{name}.c" for name in (*COMMON, "backend")]
        compiled = []
        for source in (*own, labs / "runner.c", labs / "keeper_gpu.c", self.entry(step, table, output)):
            compiled.append(str(output.with_suffix(f".{source.stem}.o")))
            run(["gcc", *C_FLAGS, *include, "-c", str(source), "-o", compiled[-1]], source.name)
        run([nvcc, f"-gencode=arch=compute_{architecture},code=sm_{architecture}",
             *(str(path) for path in sorted(objects.glob("*.gpu.o"))), *compiled, "-Xlinker", "--gc-sections", "-o",
             str(output)], "link for the GPU")
        output.chmod(0o711)  # to be run, not to be read

    def compile(self, folder, step, name, build, check_symbols=True):
        """
        Object file of one of the step's .cu files in `folder`. Files that were compiled before, with the same headers,
        are not compiled again. Raises NotBuilt or Refused.
        """
        digest = hashlib.sha256(f"{build} {name} {check_symbols}".encode())
        for path in sorted((folder / step).iterdir()):
            if path.suffix in (".cuh", ".h") or path.name == name:
                digest.update(f"\n{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
        kept = self.cache / f"{digest.hexdigest()}.o"
        output = folder / "objects" / f"{name}.{build}.o"
        if kept.exists():
            shutil.copyfile(kept, output)
            return output
        complaint = kept.with_suffix(".refused")
        if complaint.exists():
            raise Refused(complaint.read_text())
        dependencies = output.with_suffix(".d")
        command = [str(self.base / "common/simt/simtcc"), *(["--check"] if build == "check" else ["-O2"]), "-w",
                   f"-I{self.base / 'common'}", f"-I{self.base}", "-MMD", "-MF", str(dependencies),
                   "-c", f"{step}/{name}", "-o", str(output)]
        done = confined_compiler(command, folder)
        if done.returncode != 0 or not output.exists():
            text = done.stdout.decode(errors="replace")
            self.refuse_foreign(name, folder, re.findall(r"(?<!\S)(/[^\s:'\"]+):\d+", text))
            text = text.replace(str(folder) + "/", "").replace(str(self.base) + "/", "")
            raise NotBuilt(f"{name} does not compile: {' '.join(text.split())[:600] or 'the compiler gave up'}")
        try:
            self.examine(folder, output, dependencies, build, check_symbols)
        except Refused as refusal:
            complaint.write_text(str(refusal))
            raise
        temporary = kept.with_suffix(f".{os.getpid()}")
        shutil.copyfile(output, temporary)
        temporary.rename(kept)
        return output

    def examine(self, folder, output, dependencies, build, check_symbols):
        """Refuses an object that was made from foreign files, asks for more than it may, or runs before main()."""
        read = dependencies.read_text().replace("\\\n", " ").split()[1:]
        self.refuse_foreign(output.name.split(".")[0], folder, [path for path in read if not path.endswith(":")])
        if not check_symbols:
            return
        sections = run(["size", "-A", "-d", str(output)], "size")
        early = sum(int(match[2]) for match in
                    re.finditer(r"^\.(init_array|ctors|preinit_array|fini_array|dtors)\S*\s+(\d+)", sections, re.M))
        if early > (8 if build == "check" else 0):  # the checked build's own initialisation
            raise Refused("code that runs before or after main() (a static constructor or destructor)")
        variables = sum(int(match[2]) for match in re.finditer(r"^\.(data|bss)\S*\s+(\d+)", sections, re.M))
        if variables > 1 << 20:
            raise Refused(f"{variables} bytes of global variables; a kernel's memory is what it is given")
        symbols = [line.split() for line in run(["nm", "-P", str(output)], "nm").splitlines()]
        if any(symbol[1] == "i" for symbol in symbols):
            raise Refused("an indirect function, whose resolver runs before main()")
        taken = {symbol[0] for symbol in symbols if symbol[1] in "TDBRVWuC"} & self.protected_names()
        taken -= self.given_names(build)
        if taken:
            raise Refused(f"defines {', '.join(sorted(taken)[:5])}, which belongs to the harness or the C library")

    def refuse_foreign(self, name, folder, paths):
        """Also where the compiler gave up: its message would show lines of the file."""
        own = (str(folder.resolve()) + "/", str(self.base.resolve()) + "/")
        for path in paths:
            whole = os.path.realpath(os.path.join(folder, path))
            if not whole.startswith((*own, "/usr/include/", "/usr/lib/", "/usr/local/include/")):
                raise Refused(f"{name} includes {path}, which is no part of the project")

    def given_names(self, build):
        """Definitions that every object has because the backend's headers define them inline."""
        names = getattr(self, f"_given_{build}", None)
        if names is None:
            probe = self.cache / f"probe.{build}.{os.getpid()}.cu"
            probe.write_text("__global__ void probe() {}\nvoid start() { probe<<<1, 1>>>(); }\n")
            output = probe.with_suffix(".o")
            run([str(self.base / "common/simt/simtcc"), *(["--check"] if build == "check" else []), "-w", "-c",
                 str(probe), "-o", str(output)], "probe")
            names = defined(str(output))
            probe.unlink()
            output.unlink()
            setattr(self, f"_given_{build}", names)
        return names


def device():
    """(nvcc, architecture) of this machine's GPU, as in ("/usr/local/cuda/bin/nvcc", "90a"), or None."""
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


def defined(path):
    return {line.split()[0] for line in run(["nm", "-P", "-g", "--defined-only", path], "nm").splitlines()
            if len(line.split()) > 1}


def undefined(path):
    return {line.split()[0] for line in run(["nm", "-P", "-u", str(path)], "nm").splitlines()}


def refuse_symbols(objects):
    """objects: {file name: object}. What one file asks for, another of the submission may define."""
    own = set().union(*(defined(str(path)) for path in objects.values()))
    for name, path in objects.items():
        foreign = {symbol for symbol in undefined(path) - own - ALLOWED if not symbol.startswith(ALLOWED_PREFIXES)}
        if foreign:
            yield name, f"uses {', '.join(sorted(foreign)[:5])}, which a kernel may not use"


def refuse_text(name, text):
    """Comments and strings count too: what is a comment depends on too much to be decided here."""
    joined = re.sub(r"\\[ \t]*\r?\n", "", text)
    for pattern, what in FORBIDDEN_TEXT:
        if pattern.search(joined):
            raise Refused(f"{name} uses {what}, which a submission may not")


def unprivileged():
    if os.geteuid() != 0:
        return {}
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def end_group(process):
    """Ends a process that leads a group, and whatever it has left in that group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def confined_compiler(command, folder):
    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (COMPILE_SECONDS, COMPILE_SECONDS))
        resource.setrlimit(resource.RLIMIT_DATA, (COMPILE_MEGABYTES << 20, COMPILE_MEGABYTES << 20))
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 20, 256 << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": str(folder / "scratch"), "LC_ALL": "C"}
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env=environment, start_new_session=True, preexec_fn=limits,
                               **unprivileged())
    try:
        output, _ = process.communicate(timeout=2 * COMPILE_SECONDS)
    except subprocess.TimeoutExpired:
        output = b"the compiler ran out of time"
    finally:
        end_group(process)
    return subprocess.CompletedProcess(command, process.returncode, output)
