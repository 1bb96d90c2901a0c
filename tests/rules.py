#!/usr/bin/env python3
"""Checks what must be true of the tree's text, whatever the kernels do.

    tests/rules.py          names every place that breaks a rule; exit status 1 when there is one

A step's folder holds no answers and no variants of a kernel by size. A launcher takes at most seven arguments. No kernel's file
keeps state on the device between launches, and no source asks which backend compiles it. Every quoted include is found, and none
leads up (ROOMS) or sideways to another step. A kernel is understood from few files, and nothing that is for all kernels names
one. No script hides a module of Python's. Links lead somewhere, to headings too. A name that a kernel had is no kernel's now, and no other's then.
Every rung has planted faults, and what they replace is there. A lesson's picture has the command that shows the run which it is drawn from. Of three rungs in
a row at least one has a picture in its section, but for limit lessons; every picture is shown.
docs/errata.md tells the exercises as tests/faults has them.
"""
import collections
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "common/tools/broken"))
import broken  # noqa: E402
import facts  # noqa: E402
from source import FENCE, MOMENT, closure, headings, lesson_of, of_steps, resolved, without_comments  # noqa: E402

FILES = [path for path in subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, text=True,
                                         stdout=subprocess.PIPE).stdout.splitlines() if (ROOT / path).is_file()]
SOURCES = (".c", ".h", ".cu", ".cuh")
# A file includes files from its own room and from lower ones.
ROOMS = {"common/device/": 1, "common/harness/": 2, "common/problems/": 3, "common/tools/": 4, "a step": 4, "tests/": 5}
# A kernel is understood from at most so many files and lines. In a core ladder all headers count but the problems', in others
# only the step's.
MOST_FILES, MOST_LINES, MOST_FILES_BEYOND = 8, 1200, 12
STEP = re.compile(r"(0\d_\w+)/")
LAUNCHER = re.compile(r'extern "C" cudaError_t (\w+)\(([^)]*)\)')
STATE = re.compile(r"^(?:static |extern )*__(?:device|constant|managed)__[^(;{]*[;=\[]", re.M)
VARIANT = re.compile(r"\w+_\d+x\d+\w*|\w+_\d+_kb\b")
# These conditions are for include guards, for code in two languages, or for one exercise. Below sm_80 cp.async is made of plain
# copies.
CONDITION = re.compile(r"^#\s*(?:if|ifdef|ifndef|elif)\b(?! (?:\w+_C?U?H\b|KERNEL$|__cplusplus$|defined\(__CUDA_ARCH__\)))(.*)", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)
# These files are for all kernels. A lesson's pictures are drawn for its own.
FOR_ALL = re.compile(r"common/|tests/(?:harness|simt|support|nightly|ptx)/|tests/rules\.py|docs/make/(?!draw_\d)|.*\bMakefile$|.*\.mk$")
PICTURE = re.compile(r"!\[[^\]]+\]\((?:\.\./)*docs/pictures/([\w.]+)\)")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def of_a_step(path, text, code):
    for found in re.finditer("solution", text, re.I):
        yield found, "says 'solution'"
    if not path.endswith(SOURCES):
        return
    for found in VARIANT.finditer(code):
        yield found, f"{found[0]} is a variant by size; those that only tests need are in tests/steps/tiles_NN.cu"
    for found in LAUNCHER.finditer(code):
        if found[2].count(",") >= 7:
            yield found, f"{found[1]} takes {found[2].count(',') + 1} arguments, more than 7"
    for found in STATE.finditer(code):
        yield found, f"keeps state on the device: {found[0].strip()}"


def room(path):
    """Returns (how high the room is, its name)."""
    found = re.match(r"0\d_\w+/|common/\w+/|tests/", path)
    return (ROOMS.get(found[0], ROOMS["a step"]), found[0]) if found else (0, "")


def of_a_source(path, code):
    for found in CONDITION.finditer(code):
        yield found, f"#if{found[1]}: a source does not ask what compiles it"
    for found in INCLUDE.finditer(code):
        try:
            other = str(resolved(ROOT / path, found[1]).relative_to(ROOT))
        except LookupError:
            yield found, f"includes {found[1]}, which is nowhere"
            continue
        here, there = room(path), room(other)
        if other.startswith("common/simt/"):
            yield found, f"includes {other}: the CPU backend is reached by the include path alone"
        elif there != here and there[0] >= here[0]:
            yield found, f"includes {other}, which is not below it"


def of_a_kernel(path):
    """Says what one must read to understand a kernel, where it is too much. What all steps share is read once, before other
    ladders."""
    core = path.parent.parent == ROOT
    known = ROOT / ("common/problems" if core else "common")
    files = [path, *closure(path, lambda header: not header.is_relative_to(known))]
    if not core:
        files = [file for file in files if not file.name.endswith("_step.h")]
    lines = sum(file.read_text().count("\n") for file in files)
    if len(files) > (MOST_FILES if core else MOST_FILES_BEYOND) or core and lines > MOST_LINES:
        yield f"{path.relative_to(ROOT)}: to understand it one opens {len(files)} files, {lines} lines"


@functools.cache
def anchors(page):
    return {name for _, _, _, name in headings(page.read_text().split("\n"))}


def of_a_page(path, text):
    for found in LINK.finditer(FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)):
        page = (ROOT / path).parent.joinpath(found[1]) if found[1] else ROOT / path
        if "://" in found[1]:
            continue
        if not page.exists():
            yield found, f"links to {found[1]}, which is not there"
        elif found[2] and page.suffix == ".md" and found[2] not in anchors(page.resolve()):
            yield found, f"links to {found[1]}#{found[2]}, and no heading there is called so"


def of_the_old_names():
    claimed = {}
    for name, kernel in facts.kernels().items():
        for old in kernel["was"].split():
            if old in facts.kernels():
                yield f"{kernel['step']}: {name} was {old}, and there is a kernel of that name"
            if old in claimed:
                yield f"{kernel['step']}: {name} was {old}, and so was {claimed[old]}"
            claimed[old] = name


def of_the_exercises():
    told = set(re.findall(r"<summary>(\d+\. .*)</summary>[^<]*?\[([\w-]+)\]\([^)]*\.faults\)", (ROOT / "docs/errata.md").read_text()))
    planted = {(f"{fault.exercise}. {fault.kernel}: {fault.symptom}", fault.name)
               for fault in broken.read_faults() if fault.exercise}
    for title, fault in sorted(told ^ planted):
        yield f"docs/errata.md: '{title}' ({fault}) " + ("is no exercise" if (title, fault) in told else "is missing")


def of_the_faults():
    rungs = set(facts.kernels())
    for kernel in sorted(rungs - {fault.kernel for fault in broken.read_faults()}):
        yield f"tests/faults: there is no fault of {kernel}"
    for file in sorted(path.name for path in broken.FAULTS.glob("*.faults") if path.stem not in rungs):
        yield f"tests/faults/{file}: there is no kernel of this name"
    for fault in (*broken.read_faults(), *broken.read_faults(told=True)):
        for file in sorted({file for file, _, _ in fault.edits}):
            try:
                broken.planted(fault, file)
            except broken.Broken as error:
                yield f"tests/faults: {error}"


def of_the_names():
    """
    A file that is for all kernels names none. A name with an underscore or a digit may stand nowhere, not even in a comment,
    except before a ( or after a dot. Any other name may not be a quoted string. Names that CUDA or the CPU backend also has
    (words of the code in common/simt/include, and `words` of common/simt/README.md) count only after KERNEL= or --kernel and as a
    problem's function, where all names count.
    """
    simt = [path for path in FILES if path.startswith("common/simt/include/")]
    words = {word for path in simt for word in re.findall(r"\w+", without_comments((ROOT / path).read_text()))}
    words |= set(re.findall(r"`(\w+)`", (ROOT / "common/simt/README.md").read_text()))
    all_names = "|".join(facts.kernels())
    marked = "|".join(name for name in facts.kernels() if name not in words and re.search(r"[_\d]", name))
    plain = "|".join(name for name in facts.kernels() if name not in words and not re.search(r"[_\d]", name))
    functions = "|".join({kernel["function"].removesuffix(f"_{name}") for name, kernel in facts.kernels().items()})
    named = re.compile(rf"(?<![\w.])(?:{marked})(?![\w(])|([\"'])(?:{plain})\1|(?:KERNEL=|--kernel)[ =\"',]*(?:{all_names})\b|"
                       rf"\b(?:{functions})_(?:{all_names})\b")
    for path in filter(FOR_ALL.match, FILES):
        text = (ROOT / path).read_text()
        for found in named.finditer(text):
            yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}: names a kernel: {found[0]}"


def of_the_moments():
    """Every picture of a kernel's work stands beside the command that opens its run, at a line that the kernel has."""
    for page in of_steps("README.md"):
        step = next(each for each in facts.steps() if each["step"] == page.relative_to(ROOT).parts[0])
        names = {row["name"] for row in step["kernels"]}
        for line in page.read_text().split("\n"):
            command = MOMENT.search(line)
            if not command:
                if PICTURE.search(line):
                    yield f"{page.relative_to(ROOT)}: {PICTURE.search(line)[1]} stands without `make show-{step['step'][:2]} KERNEL=name`"
                continue
            kernels, text = command[2].strip('"').split(), command[3] or ""
            last = names & {kernels[-1]} and facts.source(kernels[-1])
            if command[1] != step["step"][:2] or set(kernels) - names:
                yield f"{page.relative_to(ROOT)}: {command[0]}: this step has no such kernel"
            elif not any(text in path.read_text() for path in [last, *closure(last)]):
                yield f"{page.relative_to(ROOT)}: {command[0]}: no source of {kernels[-1]} has '{text}'"


def of_the_pictures():
    shown = set()
    for page in (path for path in FILES if path.endswith(".md")):
        shown |= set(PICTURE.findall((ROOT / page).read_text()))
    for step in facts.steps():
        # Finds headings of sections, and what stands below each. Code has lines that begin with #, too, so it is removed first.
        sections = {page: list(zip(*[iter(re.split(r"^(#{2,3} .*)$", FENCE.sub("", page.read_text()), flags=re.M)[1:])] * 2))
                    for page in of_steps("README.md", step["step"])}
        without = collections.Counter()
        for kernel in (row["name"] for row in step["kernels"]):
            page = lesson_of(facts.source(kernel))
            found = [below for heading, below in sections[page] if re.search(rf"\d[_ .·`]+{kernel}\b", heading)]
            without[page] = 0 if any(map(PICTURE.search, found)) else without[page] + 1
            if not found:
                yield f"{page.relative_to(ROOT)}: {kernel} has no section here"
            elif without[page] == 3 and page.parent.name != "limit":  # their readers open the runs
                yield f"{page.relative_to(ROOT)}: the third section in a row that shows no picture of docs/pictures is {kernel}'s"
    for path in FILES:
        if path.startswith("docs/pictures/") and path.removeprefix("docs/pictures/") not in shown:
            yield f"{path}: no page shows it"


def main():
    broken_rules = [*of_the_exercises(), *of_the_old_names(), *of_the_faults(), *of_the_names(), *of_the_pictures(), *of_the_moments()]
    broken_rules += [f"{path}: hides Python's own {pathlib.Path(path).stem} from the scripts beside it" for path in FILES
                     if path.endswith(".py") and pathlib.Path(path).stem in sys.stdlib_module_names]
    for path in FILES:
        backend = path.startswith(("common/simt/", "tests/simt/"))
        if not path.endswith((*SOURCES, ".md", ".json")):
            continue
        text = (ROOT / path).read_text()
        code = without_comments(text)
        found = list(of_a_step(path, text, code)) if STEP.match(path) else []
        if path.endswith(SOURCES) and not backend and not path.startswith("common/tools/labs/"):
            found += of_a_source(path, code)
        if path.endswith(".md"):
            found += of_a_page(path, text)
        broken_rules += [f"{path}:{match.string.count(chr(10), 0, match.start()) + 1}: {what}" for match, what in found]
    for kernel in of_steps("[0-9]*_*.cu"):
        broken_rules += of_a_kernel(kernel)
    print("\n".join(broken_rules) or f"rules: {len(FILES)} files, none broken")
    return 1 if broken_rules else 0


if __name__ == "__main__":
    sys.exit(main())
