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
import sys
import tempfile
import time

import examine
import handout
from examine import NotWatched, Refused
from sandbox import Limits, Unable
from source import LADDERS

ROOT = handout.ROOT
PROBLEMS = ("matmul", "softmax", "attention", "attention_backward")
COMMON = (*(f"problems/{name}" for name in PROBLEMS),
          *(f"harness/{name}" for name in ("refusal", "problem", "ladder", "inputs", "check", "tensor_map", "stopwatch")))
# The judge also has these, and the rows of all steps. What would launch their kernels stays unresolved.
JUDGING = tuple(f"harness/{name}" for name in ("cases", "claims", "trial", "device_buffer", "explain"))
ANSWERED = ("backend_counters", "backend_report")  # by the student's process
# A runner knows a problem by this name.
SLIM = [f"-D{name}_problem=lab_{name}" for name in PROBLEMS]
OWN = ("case.h", "deferred_launches.h", "deferred_launches_cpu.cpp", "deferred_launches_gpu.c", "runner.h", "runner.c", "variables.c")
C_FLAGS = "-std=c17 -D_GNU_SOURCE -O2 -ffunction-sections -fdata-sections".split()
LIBRARIES = "-lm -ldl".split()
EDGES = ("begin", "end")  # of a submission's variables

# deferred_launches_cpu.cpp stands in for these.
WRAPPED = "simt_run cudaMemsetAsync printf puts putchar".split()

LIMIT = 1 << 20  # bytes of one submitted file
COMPILE_SECONDS, COMPILE_MEGABYTES = 60, 3072
# A submission's own object files take some 60 MB. Files that are being made are younger than CACHE_GRACE.
CACHE_MEGABYTES, CACHE_SECONDS, CACHE_GRACE = 2048, 7 * 86400, 600


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
                print("grade: the first grading compiles the backend and the harness, which takes some minutes once", file=sys.stderr, flush=True)
                finished, self.base = self.base, self.base.with_suffix(".new")
                shutil.rmtree(self.base, ignore_errors=True)
                self.base.mkdir()
                self._make()
                self.base.rename(finished)
                self.base = finished
                self._remove_old()
        self.cache = self.base / "cache"
        self._prune_cache()

    def _remove_old(self):
        """Removes older copies of the project. A grading may still be using one that is younger than a day."""
        for path in self.top.iterdir():
            if re.fullmatch(r"[0-9a-f]{16}(\.new)?|grading-.*", path.name) and path != self.base and \
                    time.time() - path.stat().st_mtime > 86400:
                shutil.rmtree(path, ignore_errors=True)

    def _prune_cache(self):
        """
        Removes object files that were not used for CACHE_SECONDS, and the oldest while there are more than CACHE_MEGABYTES. A
        grading has links of its own to those that it uses. Where another one prunes, this one need not.
        """
        with open(self.top / "prune", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            left, now = CACHE_MEGABYTES << 20, time.time()
            kept = [path for path in self.cache.iterdir() if path.suffix in (".o", ".refused")]
            for path in sorted(kept, key=lambda path: path.stat().st_mtime, reverse=True):
                status = path.stat()
                left -= status.st_size
                if now - status.st_mtime > (CACHE_SECONDS if left > 0 else CACHE_GRACE):
                    path.unlink()

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
        for edge in EDGES:
            run(["gcc", *C_FLAGS, f"-DEDGE={edge}", "-c", str(labs / "variables.c"), "-o", str(self.object(edge))], "variables.c")
        run(["ar", "rcs", str(self.base / "labs/libcommon.a"), *(str(self.object(path.stem)) for path in sources)],
            "libcommon.a")
        self._make_judge()
        harness = [self.runtime, str(self.base / "labs/libcommon.a"), *(str(self.object(name)) for name in ("runner", "deferred_launches_cpu", *EDGES))]
        names = {line.split()[0] for path in harness for line in nm("-g", "--defined-only", path)
                 if len(line.split()) > 2 and line.split()[1] in "TDBR"}
        (self.base / "labs/protected").write_text("\n".join(sorted(names | {"main"})))

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
            ["g++", "-static", "-no-pie", "-pthread", "-w", "-Wl,--gc-sections", *(f"-Wl,--wrap={name}" for name in WRAPPED), str(self.object(step)), str(self.object("runner")),
             str(self.object("deferred_launches_cpu")), str(self.object("begin")), *map(str, objects), str(self.object("end")), *missing, str(self.base / "labs/libcommon.a"),
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
        complaint, taken = kept.with_suffix(".refused"), folder / kept.name
        if complaint.exists():
            raise Refused(complaint.read_text())
        if taken.exists() or take(kept, taken):
            return taken
        try:
            try:
                out = self._compile(box, folder, step, name, wall, check_symbols)
            except NotWatched as refusal:  # what is handed over by value is watched where the function is in its caller's place
                try:
                    out = self._compile(box, folder, step, name, wall, check_symbols, flat=True)
                except NotBuilt:
                    raise refusal from None
        except Refused as refusal:
            complaint.write_text(str(refusal))
            raise
        made = self.cache / f"{digest.hexdigest()}.{os.getpid()}"
        self.isolate(out / "object.o", made, step)
        if not defined(made):
            made.unlink()
            raise NotBuilt(f"{name} does not define {' or '.join(sorted(self.wanted(step))[:12])}")
        os.link(made, taken)
        made.rename(kept)
        return taken

    def _compile(self, box, folder, step, name, wall, check_symbols, flat=False):
        """Compiles and examines a file. Returns a folder that holds object.o."""
        source, out = folder / "source", pathlib.Path(tempfile.mkdtemp(dir=folder))
        box.own(out)
        ending = box.run([str(self.base / "common/simt/simtcc"), "--check", *["--flat"] * flat, "-w",
                          "-Xcompiler", f"-fdump-tree-optimized-raw-uid={out / 'calls'}",
                          "-Xcompiler", "-fno-diagnostics-show-caret,-fmax-errors=5,-fno-gnu-unique", "--text", str(out / "text"),
                          f"-I{self.base / 'common'}", f"-I{source}",
                          "-c", str(source / step / name), "-o", str(out / "object.o")],
                         "build", Limits(COMPILE_SECONDS, wall, COMPILE_MEGABYTES), see=[self.base, source], write=out,
                         cwd=str(source), environment={"TMPDIR": str(out), "SOURCE_DATE_EPOCH": "0"})
        if ending.timed_out:
            raise NotBuilt(f"{name}: the compiler ran out of time")
        if ending.status != 0:
            raise NotBuilt(f"{name} does not compile: {self.complaints(ending.output, source / step)}")
        text = {kind: read_regular(out / kind).decode(errors="replace") for kind in ("text.tokens", "text.headers", "text.s")}
        examine.examine_places(name, text["text.headers"], source / step)
        examine.examine_tokens(name, examine.own_tokens(name, text["text.tokens"], text["text.headers"], (self.base, source), source / step))
        if check_symbols:
            asked, others = self.examine_object(out / "object.o", step)
            assembly = examine.examine_assembly(name, text["text.s"], asked, others)
            examine.examine_calls(name, read_regular(out / "calls").decode(errors="replace"), assembly)
        return out

    def isolate(self, source, target, step):
        """
        Leaves visible only what the step's table and its other files name. Whatever else the file defines is its own, and
        replaces nothing in the harness or in another file. On the CPU its static initialisers wait for runner.c.
        """
        early = re.findall(r"\] (\.(?:init_array|ctors)[\w.]*)", run(["readelf", "-SW", str(source)], "readelf"))
        later = [] if target.suffix == ".o" else [word for section in early for word in ("--rename-section", f"{section}=lab_initialisers")]
        keep = sorted(self.wanted(step) | self.declared(step))
        run(["ld", "-r", "--force-group-allocation", str(source), "-o", str(target)], "ld")
        run(["objcopy", *later, *(f"--keep-global-symbol={name}" for name in keep), str(target)], "objcopy")

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
        else:  # what simtcc itself refuses has no line
            found = re.findall(r"^simtcc: error: .*: (\d+ bytes of static shared memory; a kernel has at most \d+)", output.decode(errors="replace"), re.M)
        return "; ".join(dict.fromkeys(line[:200] for line in found if line))[:600] or "the compiler gave up"

    # ------------------------------------------------------------------------------------------------------------------
    # What is refused

    def examine_object(self, output, step):
        """Refuses an object that replaces part of the harness, or has more variables than it may. Returns what it asks for: of
        the harness and libraries, and of the step's other files."""
        strong, asked = set(), set()
        for line in nm(str(output)):
            name, kind = line.split()[:2]
            if kind == "i":
                raise Refused("an indirect function, whose resolver runs before main()")
            (strong if kind in "TDBRVWuC" else asked if kind in "Uvw" else set()).add(name)
        # These are named objects: the checked build has .data of its own. Here shared memory is thread-local.
        found = re.findall(r"^ *\d+: [0-9a-f]+ +(\w+) (OBJECT|TLS) +\w+ +\w+ +(?!UND|ABS)\w+ ",
                           run(["readelf", "-sW", str(output)], "readelf"), re.M)
        for kind, words, most in (("OBJECT", "global", examine.GLOBAL_VARIABLES), ("TLS", "shared", examine.SHARED_VARIABLES)):
            examine.examine_variables(sum(int(size, 0) for size, what in found if what == kind), words, most)
        taken = (strong & self.protected()) - self.wanted(step)
        if taken:
            raise Refused(f"defines {', '.join(sorted(taken)[:5])}, which belongs to the harness")
        others = self.wanted(step) | self.declared(step)
        return sorted(asked - others), asked & others

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
                asked, _ = self.examine_object(out / "object.o", step)
                examine.examine_asked(name, asked, examine.ON_A_GPU)
                examine.examine_variables(sum(map(int, re.findall(rb"(\d+) bytes gmem", ending.output))), "global",
                                          examine.GLOBAL_VARIABLES)
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


def read_regular(path, most=64 << 20, folder=None):
    """Reads a file that another user made: no link, no pipe, not too long. The path begins at the descriptor `folder`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotBuilt(f"{path.name} is not a regular file")
        return file.read(most)


def submitted(submission, step, name):
    """Returns a regular file of a submission, whatever it holds. No link leads out of the submission."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    top = os.open(submission, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # The file may be in the step's folder or not, and in its ladder's folder or, after an upload, not.
        for way in (pathlib.Path(*folders) for folders in ((step, name), (name,), (step, pathlib.Path(name).name), (pathlib.Path(name).name,))):
            try:
                folder = os.dup(top)
                for part in way.parts[:-1]:
                    inner = os.open(part, flags | os.O_DIRECTORY, dir_fd=folder)
                    os.close(folder)
                    folder = inner
                text = read_regular(pathlib.Path(way.name), LIMIT + 1, folder)
            except FileNotFoundError:
                continue
            finally:
                os.close(folder)
            if len(text) > LIMIT:
                raise ValueError
            return text
    finally:
        os.close(top)
    raise FileNotFoundError


def given_files(step):
    """Returns the step's files that a kernel or a row needs and nobody hands in."""
    files = handout.lab_of(step)["files"]
    return [name for name in files_of_ladders(handout.ROOT / step)
            if name.endswith((".cu", ".cuh", ".h", ".c")) and name not in files and name != "main.c"]


def take(kept, taken):
    """Links a file of the cache, whose time then says when it was used last. Returns False where there is none."""
    try:
        os.link(kept, taken)
    except FileNotFoundError:
        return False
    os.utime(taken)
    return True


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
