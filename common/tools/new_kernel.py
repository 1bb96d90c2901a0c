#!/usr/bin/env python3
"""Begins a kernel: writes all that a rung owes, builds it and runs it.

    common/tools/new_kernel.py STEP LADDER NAME AFTER       make new-kernel STEP=03 LADDER=limit NAME=x AFTER=y

The kernel is a copy of AFTER, with names of its own, so it passes at once. Beside its file it has a prototype, a row, a planted
fault, points, a section in the lesson and a picture. A ladder that the step does not have yet gets its folder and its table.
Exit status 2 and nothing written where that cannot be. Python's standard library suffices.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "broken"))
import broken  # noqa: E402  (its path is set above)
import facts  # noqa: E402
from source import (FENCE, INCLUDE, LADDERS, ROOT, TOKEN, behind, blanked, closure, of_steps,  # noqa: E402
                    resolved, without_comments)

USAGE = "usage: make new-kernel STEP=03 NAME=x AFTER=y [LADDER=limit]"
SEEN = ("comparison", "poison", "guard", "bounds", "race")  # detectors that make an example, the plainest first

COMMENT = """/*
 * Idea: this is a copy of {file}. To be written: what the kernel changes in {after}, in one sentence.
 *
 *     To be written: the formula, and the shape of each array.
 *
 * To be written: what a block, a warp and a thread own.
 *
 * Cost: to be written.
 */"""
SECTION = """{heading}

To be written: the idea in a paragraph, what the kernel should cost and why, and what limits it.
{picture}
<!-- diff:{name}:begin -->
<!-- diff:end -->

<!-- rung:{name}:begin -->
<!-- rung:end -->

"""
PICTURE = '''

def picture_{number}_{name}():
    picture = svg.Picture("{name}: what does it move?",
                          "Bytes of global memory that {after} and {name} load and store.")
    views.bytes_moved(picture, 50, "{number}", ("{after}", "{name}"), "{sizes}")
    return picture
'''


class Refused(Exception):
    """Nothing was written, and why."""


def visible(code):
    """The functions that a kernel's file defines and others could call; code has no comments."""
    for found in re.finditer(r"\b(\w+)\s*\(", code):
        declared = code[max(code.rfind(character, 0, found.start()) for character in ";{}") + 1:found.start()]
        if re.search(r'__global__|extern "C"', declared) and re.match(r"\s*\{", code[behind(code, found.end()):]):
            yield found[1]


def renamed(text, names):
    """The text with other names for some of its functions; comments and includes keep theirs."""
    code = INCLUDE.sub(lambda found: blanked(found[0]), without_comments(text))
    for token in reversed([found for found in TOKEN.finditer(code) if found[0] in names]):
        text = text[:token.start()] + names[token[0]] + text[token.end():]
    return text


class NewKernel:
    def __init__(self, step, ladder, name, after):
        if not (step and name and after):
            raise Refused(USAGE)
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise Refused(f"NAME is '{name}'; it must be a C identifier, in small letters")
        ladders = ["core", *(folder.rstrip("/") for folder in LADDERS[1:])]
        if ladder not in ladders:
            raise Refused(f"LADDER is '{ladder}'; it must be one of {' '.join(ladders)}")
        steps = {each["step"][:2]: each for each in facts.steps()}
        if step not in steps:
            raise Refused(f"STEP is '{step}'; it must be one of {' '.join(steps)}")
        rows = {row["name"]: row for row in steps[step]["kernels"]}
        if after not in rows:
            raise Refused(f"AFTER is '{after}'; it must be a kernel of step {step}: {' '.join(rows)}")
        if name in facts.kernels():
            raise Refused(f"NAME is '{name}'; {facts.kernels()[name]['step']} has a kernel of that name")
        if name in facts.successors():
            raise Refused(f"NAME is '{name}'; that was {facts.successors()[name]}, and no old name gets a new meaning")
        self.step, self.ladder, self.name, self.after, self.row = steps[step]["step"], ladder, name, after, rows[after]
        self.folder = ROOT / self.step
        self.old = self.folder / self.row["file"]
        for path in (self.old, *closure(self.old)):
            if re.search(rf"\b{name}\b", without_comments(path.read_text("utf-8"))):
                raise Refused(f"NAME is '{name}'; {path.relative_to(ROOT)} has another use for that name")
        files = [pathlib.Path(row["file"]).name for row in rows.values() if ladder in (row["ladder"], "")]
        files = files or [pathlib.Path(row["file"]).name for row in rows.values()]  # a new ladder goes on from the others
        number = max(int(file.partition("_")[0]) for file in files) + 1
        self.number = f"{number:0{len(self.old.name.partition('_')[0])}}"
        self.new = self.folder / ("" if ladder == "core" else ladder) / f"{self.number}_{name}.cu"
        self.names = {old: self.own(old) for old in visible(without_comments(self.old.read_text("utf-8")))}
        self.fault = min((fault for fault in broken.read_faults() if self.is_example(fault)),
                         key=lambda fault: SEEN.index(fault.detector), default=None)
        if not self.fault:
            raise Refused(f"no fault of {after} makes an example of one for {name}")
        self.draw = ROOT / f"docs/make/draw_{step}.py"
        if self.draw.exists() and f"def picture_{step}_{name}(" in self.draw.read_text("utf-8"):
            raise Refused(f"NAME is '{name}'; {self.draw.relative_to(ROOT)} draws another picture of that name")

    def own(self, old):
        """What the new kernel calls a function: `scores` of standard becomes `x_scores`, `flash_half` of half `flash_x`."""
        new = re.sub(rf"(?<![A-Za-z0-9]){self.after}(?![A-Za-z0-9])", self.name, old)
        return new if new != old else f"{self.name}_{old}"

    def is_example(self, fault):
        files = {file for file, _, _ in fault.edits}
        return fault.kernel == self.after and fault.detector in SEEN and files == {str(self.old.relative_to(ROOT))}

    # What is written: each of these yields (path, text).

    def kernel(self):
        text = renamed(self.old.read_text("utf-8"), self.names)
        comment = COMMENT.format(file=self.row["file"], after=self.after)
        begin = text.index("/*")  # behind a line that says what it needs
        text = text[:begin] + comment + text[text.index("*/", begin) + 2:]
        if self.new.parent != self.old.parent:  # what lies beside the old one is spelled from the root
            text = INCLUDE.sub(lambda found: found[0].replace(found[1], self.include(found[1])), text)
        yield self.new, text

    def include(self, name):
        path = resolved(self.old, name)
        return str(path.relative_to(ROOT)) if path.parent == self.old.parent else name

    def prototype(self):
        path, = self.folder.glob("*_step.h")
        text = path.read_text("utf-8")
        for declaration in re.finditer(r"^\w+_fn [^;]*;", text, re.MULTILINE):
            more = re.sub(rf"\b(\w+)_{self.after}\b", rf"\g<0>, \1_{self.name}", " ".join(declaration[0].split()))
            text = text.replace(declaration[0], textwrap.fill(more, 100, subsequent_indent="    "))
        yield path, text

    def table(self):
        path, = self.folder.glob("*_step.c")
        text = path.read_text("utf-8")
        begin = re.search(rf"^    \w+_ROW\(\s*{self.after}\b", text, re.MULTILINE).start()
        end = text.index("\n", behind(without_comments(text), text.index("(", begin) + 1)) + 1
        row = re.sub(r',\s*\.about\.(?:after|was|claims) =\s*(?:"[^"]*"\s*)+', "", text[begin:end])
        row = re.sub(rf'(\(\s*){self.after}(,\s*)"[^"]*"(,\s*)(?:"(?:\\.|[^"\\])*"\s*)+', rf'\1{self.name}\2"{self.new.name}"\3'
                     rf'"a copy of {self.after} to begin with",\n               .about.after = "{self.after}"', row, count=1)
        if self.ladder == self.row["ladder"]:
            return [(path, text[:end] + row + text[end:])]
        there = re.search(rf"^static const struct \w+ {self.ladder}\[\] = \{{\n", text, re.MULTILINE)
        if there:
            last = text.index("    {.about.name = NULL}", there.end())
            return [(path, text[:last] + row + text[last:])]
        kind = re.findall(r"^static const struct (\w+) \w+\[\] = \{\n", text[:begin], re.MULTILINE)[-1]
        problem = re.search(rf'\{{"{self.row["ladder"]}", (&\w+),', text)[1]
        step, last = text.index("const struct step "), text.rindex("}};")
        new = f"static const struct {kind} {self.ladder}[] = {{\n{row}    {{.about.name = NULL}},\n}};\n\n"
        return [(path, text[:step] + new + text[step:last] + f', {{"{self.ladder}", {problem}, {self.ladder}}}' + text[last:])]

    def faults(self):
        lines = [f"run: {options}" for options in self.fault.runs]
        lines += ["", f"=== {self.fault.name.removeprefix(f'{self.after}-')}, {self.fault.detector}: {self.fault.wrong}"]
        for number, (_, old, new) in enumerate(self.fault.edits):
            lines += ["@@"] * (number > 0)
            lines += [sign + line for sign, text in (("-", old), ("+", new)) for line in renamed(text, self.names).split("\n")]
        yield broken.FAULTS / f"{self.name}.faults", "\n".join(lines) + "\n"

    def points(self):
        path = self.folder / "lab.json"
        text = path.read_text("utf-8")
        file, names = str(self.new.relative_to(self.folder)), {f'"{old}"': f'"{new}"' for old, new in self.names.items()}
        for pattern in (rf'"{self.row["file"]}": ', rf'\{{\s*"name": "{self.after}"'):  # its stubs, its points
            found = re.search(pattern, text)
            if not found:
                continue
            value = found.end() if found[0][0] == '"' else found.start()
            end = json.JSONDecoder().raw_decode(text, value)[1]
            copy = text[found.start():end].replace(f'"{self.row["file"]}"', f'"{file}"')
            copy = copy.replace(f'"name": "{self.after}"', f'"name": "{self.name}"')
            copy = re.sub(r'"\w+"(?=: )', lambda key: names.get(key[0], key[0]), copy)
            text = text[:end] + ",\n    " + copy + text[end:]
        spared = rf'("not_for": \[[^]]*"{self.after}")'
        yield path, re.sub(spared, rf'\1, "{self.name}"', text)

    def section(self):
        """A section behind AFTER's, or behind the last one of the ladder that the kernel goes to."""
        rows = [name for name, row in facts.kernels().items() if (row["step"], row["ladder"]) == (self.step, self.ladder)]
        anchor = rows[-1] if rows and self.ladder != self.row["ladder"] else self.after
        for path in of_steps("README.md", self.step):
            text = path.read_text("utf-8")
            headings = list(re.finditer(r"^(#+) .*$", FENCE.sub(lambda found: blanked(found[0]), text), re.MULTILINE))
            for at, heading in enumerate(headings):
                found = re.match(rf"(#+ )\d+([_ .·`]+){anchor}\b(`?)(:?)", heading[0])
                if not found:
                    continue
                end = next((later.start() for later in headings[at + 1:] if len(later[1]) <= len(heading[1])), len(text))
                title = f"{found[1]}{self.number}{found[2]}{self.name}{found[3]}" + (": to be written" if found[4] else "")
                link = os.path.relpath(ROOT / f"docs/pictures/{self.picture_name}.svg", path.parent)
                shown = f"\n![Bytes that {self.after} and {self.name} move]({link}) `make show-{self.step[:2]} KERNEL={self.name}`\n" if self.draw.exists() else ""
                section = SECTION.format(heading=title, name=self.name, picture=shown)
                return [(path, text[:end].rstrip() + "\n\n" + section + text[end:])]
        raise Refused(f"no lesson of {self.step} has a section of {anchor}")

    picture_name = property(lambda self: f"{self.step[:2]}_{self.name}")

    def picture(self):
        if self.draw.exists():
            stub = PICTURE.format(number=self.step[:2], name=self.name, after=self.after, sizes=self.fault.runs[0])
            yield self.draw, self.draw.read_text("utf-8") + stub

    def write(self):
        """Puts everything in its place: all of it, or nothing."""
        parts = (self.kernel, self.prototype, self.table, self.faults, self.points, self.section, self.picture)
        texts = {path: text for part in parts for path, text in part()}
        for path, text in texts.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
            print(f"  {path.relative_to(ROOT)}", flush=True)
        formatter = shutil.which(os.environ.get("CLANG_FORMAT", "clang-format-14"))
        if formatter:
            subprocess.run([formatter, "-i", *(path for path in texts if path.suffix in (".c", ".h", ".cu"))], check=True)

    def prove(self):
        """Builds the step with it, draws its picture, runs it; the exit status."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # whichever make asks
        program = f"build/check/{self.step}"
        draw = [[sys.executable, "docs/make/pictures.py", "make", self.picture_name]] if self.draw.exists() else []
        commands = [["make", "-s", "BACKEND=cpu", program], *draw, [program, f"--kernel={self.name}"]]
        return next((1 for command in commands if subprocess.run(command, cwd=ROOT, env=outside, check=False).returncode), 0)


def main(arguments):
    try:
        new = NewKernel(*arguments)
        new.write()
    except (Refused, broken.Broken) as error:
        print(f"new-kernel: {error}", file=sys.stderr)
        return 2
    status = new.prove()
    if not status:
        print(f"\n{new.name} follows {new.after} and passes. What is yours to write: .github/CONTRIBUTING.md")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if len(sys.argv) == 5 else print(__doc__, file=sys.stderr) or 2)
