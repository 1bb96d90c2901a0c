#!/usr/bin/env python3
"""Makes lab folders out of the project's own sources.

    common/tools/labs/handout.py STEP DIRECTORY        STEP is 01 .. 06 or all; DIRECTORY must not exist yet

The functions that a step's lab.json names under "stubs" lose their bodies and keep a hint; a function without a hint is left out.
So do the functions of its puzzles, and lines of a puzzle that end in CUT are left out. The kernels of this workspace compile, do
nothing and fail their tests; `make learn` makes the same one. A handout is this workspace, packed with what it needs to be built,
run, tested, graded and learnt with. Answers in the lessons, `<details> ... </details>`, are left out. LAB_VARIANT chooses among
the values of lab.json's knobs, and the folder's README then names them.
"""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import facts  # noqa: E402  (its path is set above)
import outfile  # noqa: E402
from source import MOMENT, behind, closure, of_steps, without_comments  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
STEPS = {path.name[:2]: path.name for path in sorted(ROOT.glob("0?_*")) if (path / "main.c").exists()}
STUDENT = "docs/student.md"  # a handout's README.md
PAGES = ("hardware.md", "loops.md", "mathematics.md")
INSTRUCTORS = ("labs.mk", "class.sbatch", "class_report.py")  # in common/tools/labs
PACKED = not (ROOT / "common/tools/labs/labs.mk").exists()  # this is a handout: it has no solutions
TOOLS = ("doctor.*", "facts.*", "outfile.py", "packages.mk", "source.py", "traces.py", "turns.py", "variables.py", "labs/*",
         "learn/*", "show/*")  # in common/tools
TESTS = ("run", "tests.mk", "support/*", "steps/*.h", "steps/*.txt")

ANSWER = re.compile(r"^[ \t]*<details>.*?</details>[ \t]*\n", re.M | re.S)
# docs/make/lessons.py quotes this from kernels, but a student is to write it.
QUOTED = re.compile(r"^<!-- (?:code|diff):[^\n]*:begin -->\n.*?^<!-- [^\n]*:end -->\n", re.M | re.S)
CUT = "/* cut */"
UNUSED = "/* until you use them */"  # ends the line that begins the body of a stub


class Region:
    """
    A stub loses text[begin:end]: the `body` of a function or, without a hint, the function and its comment.
    """

    def __init__(self, text, name, stub):
        code = without_comments(text)
        found = [match for match in re.finditer(rf"\b{name}\s*\(", code) if self.opening(code, match.end())]
        if len(found) != 1:
            raise ValueError(f"lab.json: {len(found)} functions {name}")
        brace = self.opening(code, found[0].end())
        close = behind(code, brace + 1) - 1
        stub = stub if isinstance(stub, dict) else {"hint": stub}
        self.hint, self.until = stub["hint"], stub.get("until")
        if self.hint:
            self.parameters, self.begin, self.end = parameters(code[found[0].end():brace]), brace + 2, close
        else:
            self.begin, self.end = text.rfind("\n\n", 0, found[0].start()) + 2, close + 3
        self.body = text[brace + 1:close]

    @classmethod
    def opening(cls, code, position):
        """Returns the place of the function's `{`, where `position` is behind the `(` of its parameters; None where this is a
        call."""
        brace = re.compile(r"\s*\{").match(code, behind(code, position))
        return brace.end() - 1 if brace else None

    def replacement(self):
        if not self.hint:
            return ""
        unused = "".join(f" (void){name};" for name in self.parameters)
        return (comment("    ", "Yours to write: " + self.hint) + f"    {unused.strip()} {UNUSED}\n" +
                (f"    {self.until}\n" if self.until else ""))


def lab_of(step):
    """
    Returns lab.json with the names of its `files`, those of kernels first and in order, and a row for each kernel with its
    `file`, its `ladder` and, where lab.json says so, its `points`. Kernels that are left out are neither stubs nor graded, nor are
    `puzzles`, {file: {"before": the kernel that it leads to, "stubs"}}.
    """
    lab = json.loads((ROOT / step / "lab.json").read_text())
    rows = {name: kernel for name, kernel in facts.kernels().items() if kernel["step"] == step}
    file_of = {name: kernel["file"] for name, kernel in rows.items()}
    for name in lab.get("leave_out", ()):
        lab["stubs"].pop(file_of.pop(name), None)
    points = lab.get("points", {})
    lab["kernels"] = [{"name": name, "file": file, "ladder": rows[name]["ladder"]} | ({"points": points[name]} if name in points else {})
                      for name, file in file_of.items()]
    lab["files"] = [*file_of.values(), *(name for name in lab["stubs"] if name not in file_of.values())]
    lab["puzzles"] = {f"puzzles/{name}.cu": puzzle for name, puzzle in lab.get("puzzles", {}).items()}
    return lab


def regions(path):
    """Returns the regions of one of a step's files, in order. `path` begins with the step."""
    text = (ROOT / path).read_text()
    found = [Region(text, name, stub) for name, stub in stubs_of(path).items()]
    return sorted(found, key=lambda region: region.begin)


def stubs_of(path):
    """Returns what lab.json says of the functions of a file. `path` begins with the step."""
    lab, name = lab_of(path.parts[0]), str(path.relative_to(path.parts[0]))
    return lab["puzzles"][name]["stubs"] if name in lab["puzzles"] else lab["stubs"].get(name, {})


def knobs(lab, step):
    """Returns {name: value}: the first value that lab.json lists, or the one that LAB_VARIANT draws."""
    chance, variant = random.Random(f"{os.environ.get('LAB_VARIANT')} {step}"), os.environ.get("LAB_VARIANT")
    return {name: chance.choice(knob["values"]) if variant else knob["values"][0] for name, knob in lab.get("knobs", {}).items()}


def assignment(steps):
    """Returns what a variant asks for, in Markdown; nothing where no variant was chosen."""
    lines = []
    for step in steps if os.environ.get("LAB_VARIANT") else []:
        lab = lab_of(step)
        for name, value in knobs(lab, step[:2]).items():
            lines.append(f"- {lab['title']}: {lab['knobs'][name]['says'].format(value)}\n")
    return "\n## Your variant\n\n" + "".join(lines) if lines else ""


def parameters(listed):
    """Returns the names in a parameter list; `listed` is the list behind its '('."""
    while listed != (plainer := re.sub(r"<[^<>]*>|\([^()&*]*\)|\[[^][]*\]", "", listed)):
        listed = plainer
    return [re.findall(r"\w+", parameter)[-1] for parameter in listed.split(",")]


def stub(path):
    """Returns the file with hints in place of its solutions."""
    text, pieces, position = (ROOT / path).read_text(), [], 0
    for region in regions(path):
        pieces += [text[position:region.begin], region.replacement()]
        position = region.end
    return re.sub(rf".*{re.escape(CUT)}\n", "", "".join(pieces) + text[position:])


def untouched(step, name, folder):
    """Returns whether nothing was written into any stub of a workspace's file: each body still ends where it begins."""
    hinted = [stub for stub in stubs_of(pathlib.Path(step) / name).values() if stub]
    untils = "|".join(re.escape(stub["until"]) for stub in hinted if isinstance(stub, dict))
    return 0 < len(hinted) == len(re.findall(rf"{re.escape(UNUSED)}\s*(?:{untils})?\s*\}}", (folder / name).read_text(errors="replace")))


def workspace(step, folder):
    """Puts the step's files that students hand in into a folder, with stubs. A file that is there stays as it is."""
    lab = lab_of(step)
    for name in [*lab["files"], *lab["puzzles"]]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), open(folder / name, "x", encoding="utf-8") as file:
            file.write(stub(pathlib.Path(step) / name))


def comment(indent, text, width=110):
    if len(indent) + len(text) + 6 <= width:
        return f"{indent}/* {text} */\n"
    lines = textwrap.wrap(text, width, initial_indent=f"{indent} * ", subsequent_indent=f"{indent} * ",
                          break_long_words=False, break_on_hyphens=False)
    return "\n".join([f"{indent}/*", *lines, f"{indent} */"]) + "\n"


def copied(path, text, steps):
    """Returns what a handout of these steps shows of a file of the project."""
    if path.suffix == ".md":
        # A moment is named by text of a kernel, which is what a lab asks for.
        return MOMENT.sub(lambda found: f"`make show-{found[1]} KERNEL={found[2]}`", ANSWER.sub("", QUOTED.sub("", text)))
    if path.name == "Makefile":
        # 177 is nvcc's number for names that nothing refers to: an unfinished kernel does not use its constants yet.
        return re.sub(r"^(NVCC_FLAGS := .*)$", r"\1 -diag-suppress 177", text, flags=re.M)
    if path.name.startswith("test_"):
        return "".join(line for line in text.splitlines(keepends=True)
                       if not (match := re.match(r'#include "(0\d_\w+)/', line)) or match[1] in steps)
    return text


def files_of(steps):
    """Yields every file of a handout, relative to the project."""
    names = ["Makefile", "LICENSE", ".clang-format", ".gitignore", ".devcontainer/devcontainer.json", STUDENT,
             *(f"docs/{page}" for page in PAGES)]
    yield from map(pathlib.Path, names)
    patterns = [*(f"common/tools/{name}" for name in TOOLS), *(f"tests/{name}" for name in TESTS)]
    for step in steps:
        patterns += [f"docs/results/{step}*", f"docs/pictures/{step[:2]}_*", f"tests/steps/t*_{step[:2]}*.c*"]
    for pattern in patterns:
        yield from (path.relative_to(ROOT) for path in sorted(ROOT.glob(pattern)) if path.is_file() and path.name not in INSTRUCTORS)
    unused = unused_helpers(steps) | {ROOT / step / name for step in steps for lab in [lab_of(step)]
                                     for name in [*lab["files"], *lab["puzzles"]]}
    for folder in ("common", *steps):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and ROOT / "common/tools" not in path.parents and path not in unused:
                yield path.relative_to(ROOT)


def unused_helpers(steps):
    """Returns headers of common/device that no kernel of these steps needs: their ideas are for another step's students to
    find."""
    used = {header for step in steps for path in of_steps("*.cu", step) for header in closure(path)}
    return set((ROOT / "common/device").glob("*.cuh")) - used


def selected(step):
    if step == "all":
        return list(STEPS.values())
    if step not in STEPS:
        raise outfile.Refused(f"STEP is '{step}'; it must be all or one of {', '.join(STEPS)}")
    return [STEPS[step]]


def make(step, directory):
    """Makes the handout of a step (or of all) in a directory that does not exist yet."""
    steps = selected(step)
    directory = pathlib.Path(directory)
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise outfile.Refused(f"{directory} exists already; a handout goes into a new folder") from None
    for source in files_of(steps):
        target = directory / ("README.md" if str(source) == STUDENT else source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / source, target)
        text = target.read_text()
        shown = copied(source, text, steps)
        if shown != text:
            target.write_text(shown)
        target.chmod(0o755 if os.access(ROOT / source, os.X_OK) else 0o644)
    for name in steps:
        workspace(name, directory / name)
        path = directory / name / "lab.json"  # a grader in the folder then has the same values without being told
        lab, text = json.loads(path.read_text()), path.read_text()
        for knob, value in knobs(lab, name[:2]).items():
            text = re.sub(rf'("{knob}": \{{\s*"values": \[)[^\]]*', rf"\g<1>{value}", text)
        path.write_text(text)
    with open(directory / "README.md", "a") as readme:
        readme.write(assignment(steps))
    for page in directory.rglob("*.md"):
        text = page.read_text()
        for match in dead_links(page):
            text = text.replace(match[0], match[1])
        page.write_text(text)
    return directory


def dead_links(page):
    """Finds links to what is not in the handout, for instance another step's lesson."""
    links = re.finditer(r"\[([^\]]+)\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    return [match for match in links if not (page.parent / match[2]).exists()]


def main(arguments):
    if len(arguments) != 2:
        raise outfile.Refused(__doc__)
    print(f"made {make(*arguments)}")
    return 0


if __name__ == "__main__":
    outfile.told(main)
