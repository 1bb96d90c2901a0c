#!/usr/bin/env python3
"""Makes one page that shows what a kernel did: its source, matrices, requests, banks and time, linked with each other.

    make show-02 KERNEL=name [OPTIONS="--m 64"] [BLOCK=1] [AT='text of a line'] [MINE=1]
    make show-06 KERNEL="name other"                       two kernels on one time axis
    make show-broken KERNEL=3
    common/tools/show/show.py program COMMAND ...          a program that simtcc --check built

A page is one file in build/show/ and needs no network; what it saves, any other page opens. All it shows comes from a trace of the checked build
(common/simt/README.md describes it) and from the run's own report.
"""
import argparse
import base64
import bisect
import collections
import dataclasses
import html
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import urllib.parse
import zlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))
import facts  # noqa: E402  (its path is set above)
import outfile  # noqa: E402
import traces  # noqa: E402
from source import lesson_of  # noqa: E402
OUT = ROOT / "build/show"

SIZEOF = {"float": 4, "int": 4, "unsigned": 4, "double": 8, "__half": 2, "float2": 8, "float4": 16, "uint32_t": 4, "uint64_t": 8,
          "char": 1}


class Unable(Exception):
    """Says to the reader what keeps a page from being made."""


# ----------------------------------------------------------------------------------------------------------------------
# What the trace does not say of arrays in shared memory: how they are declared


def integer(text, known):
    """Returns the value of an integer expression of known names, or None."""
    words = re.sub(r"[A-Za-z_]\w*", lambda name: str(known.get(name[0], "?")), text)
    if not re.fullmatch(r"[\d\s()+*/-]+", words):
        return None
    try:
        return int(eval(words.replace("/", "//"), {"__builtins__": {}}))  # it has only digits and operators
    except (SyntaxError, ZeroDivisionError):
        return None


def constants(text, kernel):
    """Returns integer constants of a source, and the template arguments of this kernel: "tile<16>"."""
    known, name = {}, kernel.partition("<")[0]
    arguments = kernel.partition("<")[2].rstrip(">").split(",")
    template = re.search(rf"template\s*<([^>]*)>\s*__global__[^;{{]*?\b{name}\s*\(", text)
    for parameter, value in zip(template[1].split(",") if template else (), arguments):
        known[parameter.split("=")[0].split()[-1]] = value.strip()
    statements = re.findall(r"\b(?:const|constexpr) int ([^;]+);", text) + re.findall(r"\benum (?:\w+ )?\{([^}]*)\}", text)
    for found, value in re.findall(r"(\w+) = ([^,]+)", ",".join(statements)):
        known.setdefault(found, integer(value, known))
    return known


def declare(array, text, kernel):
    """Gives an array of shared memory its declared type and shape, where its size proves them right."""
    found = re.search(rf"__shared__(?:\s+__align__\(\d+\))?\s+(\w+)\s[^;]*?\b{array.name}((?:\[[^\]]+\])+)", text)
    if not found:
        return
    known = constants(text, kernel)
    shape = [integer(extent, known) for extent in re.findall(r"\[([^\]]+)\]", found[2])]
    size = SIZEOF.get(found[1], 0)
    for extent in shape:
        size *= extent or 0
    if size == array.bytes:
        array.shape, array.element_bytes = shape, SIZEOF[found[1]]


PART = 16  # bytes: the smallest part of an array that has a name of its own


def named_in(line, pointers):
    """Returns the name of the array that a statement stores to, if its source says one: of `tile[i] = x` the first."""
    names = re.findall(r"\b(\w+)(?=\[)", line)
    return next((name for name in names if name in pointers and name not in ("from", "to")), None)


def row_length(points, source):
    """Returns how many elements a row of a tile has in shared memory, its padding included, from where elements of an array in global
    memory went: {(array, byte): byte}. 0 where neighbours do not lie equally far apart, but for those at the edge of a tile."""
    columns, size = source.shape[-1] if source.shape else 0, source.element_bytes
    apart = {"row": collections.Counter(), "column": collections.Counter()}
    for (array, byte), to in points.items():
        for way, step in (("row", columns * size), ("column", size)):
            for times in (1, 2, 4, 8):
                there = points.get((array, byte + step * times))
                if there is not None and step and (way == "row" or byte // size % columns + times < columns):
                    apart[way][abs(there - to) / times] += 1
                    break
    ways = [max(found, key=found.get) for found in apart.values() if found]
    sure = all(found[way] > 0.8 * sum(found.values()) for found, way in zip(filter(None, apart.values()), ways))
    length = max(ways, default=0) / max(size, 1)
    return int(length) if sure and len(ways) == 2 and min(ways) == size and length == int(length) and length > 1 else 0


def name_parts(launch, texts):
    """
    Divides dynamic shared memory into the arrays that the source makes of it. A part that is filled from an array in global memory
    has that array's name, or that of the pointer that the source has for it, K_tile; others have the name of what is stored to,
    or are barriers.
    """
    whole = next((array for (space, name), array in launch.arrays.items() if (space, name) == ("shared", "dynamic")), None)
    if whole is None or not launch.blocks:
        return
    code = "\n".join(texts.values())
    pointers = set(re.findall(r"\*(?:const )?(\w+) = ", code))
    rows = {f"{file}:{number}": line for file, text in texts.items() for number, line in enumerate(text.split("\n"), 1)}
    labels, last, points = {}, {}, collections.defaultdict(dict)

    def called(source):
        return next((name for name in (f"{source}_tile", f"{source.lower()}_tile", f"{source}s") if name in pointers), f"{source} tile")

    def give(runs, label, length):
        for name, byte in traces.places(runs):
            if name == "dynamic":
                for part in range(byte // PART, (byte + max(length, 1) - 1) // PART + 1):
                    labels.setdefault(part, label)

    for event in sorted(launch.blocks[0].events, key=lambda event: event["t"]):
        kind, line = event["event"], event.get("line", "")
        if kind == "tma_load":
            give(event["shared"], called(event["at"][0][0]), event["bytes"])
        elif kind == "load" and event["space"] == "global":
            last[event["warp"], line.rpartition(":")[0]] = event
        elif kind == "store" and event["space"] == "shared":
            filled_from = last.get((event["warp"], line.rpartition(":")[0]))
            name = named_in(rows.get(line, ""), pointers)
            array = filled_from and filled_from["at"][0][0]
            label = name if name and name.endswith("_tile") else called(array) if array else name or "results"
            give(event["at"], label, event["bytes"])
            if array and filled_from["lanes"] == event["lanes"]:
                for (_, source), (to, byte) in zip(traces.places(filled_from["at"]), traces.places(event["at"])):
                    if to == "dynamic":
                        points[label].setdefault((array, source), byte)
        elif kind.startswith("mbarrier"):
            give(event.get("at", ()), "mbarriers", 8)
    if not labels:
        return
    begins, arrays = [], []
    for part in range(-(-whole.bytes // PART)):
        label = labels.get(part, arrays[-1].name if arrays else "dynamic")
        if not arrays or arrays[-1].name != label:
            begins.append(part * PART)
            arrays.append(dataclasses.replace(whole, name=label, begin=(whole.begin + part * PART) % 128, bytes=0))
        arrays[-1].bytes += min(PART, whole.bytes - part * PART)
    if len(arrays) > 12:
        return  # it is used anew for other things; pieces would not help
    many, seen = collections.Counter(array.name for array in arrays), collections.Counter()
    for array in arrays:
        source, label = launch.arrays.get(("global", re.split("[_ ]", array.name)[0])), array.name
        array.element_bytes = source.element_bytes if source else 0
        words = source and row_length(points[label], source) or 0
        array.shape = [-(-array.bytes // (words * array.element_bytes)), words] if words else []
        array.name += f" {seen[label]}" if many[label] > 1 else ""
        seen[label] += 1
    del launch.arrays["shared", "dynamic"]
    for array in arrays:
        launch.arrays["shared", array.name] = array

    def divided(runs):
        for name, byte, step, count in runs:
            if name != "dynamic":
                yield [name, byte, step, count]
                continue
            for i in range(count):
                at = byte + i * step
                own = bisect.bisect_right(begins, at) - 1
                yield [arrays[own].name, at - begins[own], 0, 1]

    def joined(runs):
        found = []
        for name, byte, _, _ in divided(runs):
            run = found[-1] if found else None
            if run and run[0] == name and (run[3] == 1 or byte == run[1] + run[2] * run[3]):
                run[2] = byte - run[1] if run[3] == 1 else run[2]
                run[3] += 1
            else:
                found.append([name, byte, 0, 1])
        return found

    for event in launch.blocks[0].events:
        for key in ("at", "shared"):
            if any(run[0] == "dynamic" for run in event.get(key, ())):
                event[key] = joined(event[key])


# ----------------------------------------------------------------------------------------------------------------------
# Ticks


class Ticks:
    """
    On this clock warps run side by side, as they may on a GPU; in the trace they run one after the other. A tick is 128 bytes
    that a warp or the copy engine moves (4 sectors, 1 wavefront), or another event. A warp waits only where its kernel does.
    """

    def __init__(self, warps):
        self.warp = [0] * warps
        self.engine = 0
        self.ids = {}       # named barriers: who arrived, and when
        self.expects = {}   # warp: the mbarrier of its last announcement
        self.pending = {}   # mbarrier: when the last arrival of its phase came
        self.phases = {}    # (mbarrier, phase): when it ended
        self.under_way = {}  # place in shared memory: (when the box arrives, its mbarrier)
        self.stores = {}    # warp: when its groups of stores are done

    def all_meet(self):
        now = max(self.warp)
        self.warp = [now + 1] * len(self.warp)
        return now, 1

    def copy(self, event):
        begin = max(self.engine, self.warp[event["warp"]])
        self.engine = begin + max(1, -(-event["bytes"] // 128))
        return self.engine

    def of(self, event):
        """Returns (tick, how many) for the next event of the trace."""
        kind, warp = event["event"], event.get("warp")
        place = tuple(event["at"][0][:2]) if event.get("at") else None
        if kind in ("barrier", "cluster_barrier", "grid_barrier"):
            return self.all_meet()
        if kind == "named_barrier":
            came = self.ids.pop(event["id"], {})
            now = max((when for when, _ in came.values()), default=0)
            for other, (_, waits) in came.items():
                if waits:
                    self.warp[other] = max(self.warp[other], now + 1)
            return now, 1
        if kind == "tma_load_done":
            now, mbarrier = self.under_way.get(place, (self.engine, None))
            self.pending[mbarrier] = max(self.pending.get(mbarrier, 0), now)
            return now, 1
        if kind == "mbarrier_phase":
            now = self.pending.pop(place, 0)
            self.phases[place, event["value"]] = now
            return now, 1
        if warp is None:
            return max(self.warp), 1
        now, length = self.warp[warp], 1
        if kind in ("load", "store"):
            length = event["wavefronts"] if event["space"] == "shared" else -(-event["sectors"] // 4)
        elif kind == "mbarrier_arrive":
            self.pending[place] = max(self.pending.get(place, 0), now)
            if event["size"]:
                self.expects[warp] = place
        elif kind == "mbarrier_passed":
            now = max(now, self.phases.get((place, event["value"]), 0))
        elif kind in ("named_barrier_sync", "named_barrier_arrive"):
            self.ids.setdefault(event["value"], {})[warp] = now, kind.endswith("sync")
        elif kind == "tma_load":
            self.under_way[tuple(event["shared"][0][:2])] = self.copy(event), self.expects.get(warp)
        elif kind == "tma_store":
            self.stores.setdefault(warp, []).append(self.copy(event))
        elif kind in ("tma_store_wait", "tma_store_wait_read"):
            now = max([now, *self.stores.get(warp, [])[:event["size"]]])
        self.warp[warp] = now + length
        return now, length


# ----------------------------------------------------------------------------------------------------------------------
# Packing


class Interned:
    """Numbers values in the order of their first use."""

    def __init__(self):
        self.values, self.numbers = [], {}

    def number(self, value):
        key = json.dumps(value)
        if key not in self.numbers:
            self.numbers[key] = len(self.values)
            self.values.append(value)
        return self.numbers[key]


DETAILS = ("sectors", "lines", "wavefronts", "ideal", "operation", "size", "id", "from", "box", "element_bytes", "swizzle", "strides", "ranks")


def pack(launch, lines):
    """
    Packs a launch for the page. An event is a row of columns: its shape (what it has in common with others), warp, tick, length,
    value and base. The bytes in its shape count from base, which is a multiple of 128, so that sectors and banks follow from the
    shape.
    """
    arrays = list(launch.arrays)
    number = {key: i for i, key in enumerate(arrays)}
    block = launch.blocks[0] if launch.blocks else traces.Block(0, [0, 0, 0])
    threads = launch.threads[0] * launch.threads[1] * launch.threads[2]
    ticks, shapes, rows = Ticks(-(-threads // 32)), Interned(), []

    def runs(event, key, space, base):
        return [[number[space, name], byte - base, step, count] for name, byte, step, count in event.get(key, ())]

    for event in block.events:
        kind, at = event["event"], event.get("at", ())
        base = min((byte for _, byte, _, _ in at), default=0) // 128 * 128
        space = event.get("space", "shared" if kind not in ("tma_load", "tma_store") else "global")
        if any((space, name) not in number for name, *_ in at):
            space = "global"  # atomics may touch either
        shape = {"kind": kind, "space": space, "lanes": event.get("lanes", 0), "bytes": event.get("bytes", 0),
                 "runs": runs(event, "at", space, base), **{key: event[key] for key in DETAILS if key in event}}
        if "line" in event:
            shape["line"] = lines.number(event["line"])
        if "shared" in event:
            shape["shared"] = runs(event, "shared", "shared", 0)
        tick, length = ticks.of(event)
        rows.append((tick, event["t"], shapes.number(shape), event.get("warp", -1), length, event.get("value", 0), base))
    rows.sort(key=lambda row: row[:2])
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("tick", "t", "shape", "warp", "length", "value", "base"))}
    columns["value"] = [value if value < 2**63 else value - 2**64 for value in columns["value"]]
    columns["tick"] = [now - before for before, now in zip([0] + columns["tick"], columns["tick"])]
    del columns["t"]
    return {"kernel": launch.kernel, "line": launch.line, "grid": launch.grid, "threads": launch.threads, "cluster": launch.cluster,
            "arrays": [dataclasses.asdict(launch.arrays[key]) for key in arrays], "shapes": shapes.values, "events": columns,
            "block": {"number": block.number, "index": block.index, "counters": block.counters, "traced": bool(launch.blocks)},
            "counters": launch.counters, "untraced": launch.untraced, "reports": launch.reports}


def sources(lines, folders):
    """Returns {file: text} for the files that lines name."""
    found = {}
    for name in dict.fromkeys(line.rpartition(":")[0] for line in lines):
        for folder in folders:
            path = folder / name
            if path.is_file():
                found[name] = path.read_text(encoding="utf-8", errors="replace")
                break
    return found


def pack_all(title, about, launches, folders):
    """Packs what a page shows, as text that a script can hold: what "save" writes, in base64."""
    lines = Interned()
    for launch in launches:
        texts = sources([launch.line, *(event.get("line", "") for block in launch.blocks for event in block.events)], folders)
        for array in launch.arrays.values():
            for text in texts.values():
                if array.space == "shared" and not array.shape:
                    declare(array, text, launch.kernel)
        name_parts(launch, texts)
    packed = [pack(launch, lines) for launch in launches]
    for launch in launches:
        lines.number(launch.line)
    data = {"title": title, **about, "launches": packed, "lines": lines.values,
            "sources": sources([*lines.values, about.get("home", "") + ":"], folders)}
    return base64.b64encode(zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9)).decode()


def data_script(payload):
    return f'(globalThis.DATA ??= []).push("{payload}");\n'


def scripts():
    return "".join(script.read_text() for script in [HERE / "page.js", *sorted(HERE.glob("page_*.js"))])


def filled(**parts):
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], (HERE / "page.html").read_text())


def page(title, payloads):
    """Returns a whole page, in one file."""
    return filled(TITLE=html.escape(title), BOOK="", CSS=f"<style>\n{(HERE / 'page.css').read_text()}</style>",
                  JS=f"<script>\n{''.join(map(data_script, payloads))}{scripts()}</script>")


def shared_parts():
    """Returns the files {name: text} that many pages of one folder share."""
    return {"page.css": (HERE / "page.css").read_text(), "page.js": scripts()}


def page_of_parts(title, data):
    """Returns a page of such a folder; `data` is the script with what it shows."""
    return filled(TITLE=html.escape(title), CSS='<link rel="stylesheet" href="page.css">', BOOK="../",
                  JS=f'<script src="{data}"></script><script src="page.js"></script>')


def write(name, text, at=""):
    """Writes a page, and says where; `at` is text of the source line at which it is to be opened."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.html"
    outfile.write(path, text)
    print(os.path.relpath(path, os.getcwd()) + (f"#at={urllib.parse.quote(at)}" if at else ""))


# ----------------------------------------------------------------------------------------------------------------------
# Runs


def traced(command, block, **environment):
    """Returns (launches, completed process) of a command, traced for this block, or for all where it is None."""
    environment = {"SIMT_WORKERS": "1", **({} if block is None else {"SIMT_TRACE_BLOCK": str(block)}), **environment}
    launches, done = traces.of(command, **environment)
    if not launches:
        raise Unable(f"{shlex.join(map(str, command))}: {done.stderr.strip() or 'its trace holds no launch; was it built with simtcc --check?'}")
    if not any(launch.blocks for launch in launches):
        if any(launch.untraced is not None for launch in launches):
            raise Unable(f"block {block} does not fit a trace (SIMT_TRACE_LIMIT, in MB); choose smaller sizes: OPTIONS='--seq 64', say")
        raise Unable(f"no launch has a block {block}")
    return launches, done


def block_of(report, command, environment):
    """Returns the number of the block that a report names, or that stores the element which the report calls wrong; 0 where there
    is none."""
    block = re.search(r"block \((\d+),(\d+),(\d+)\)", report)
    if block:
        launches, _ = traced(command, 0, **environment)
        x, y, z = map(int, block.groups())
        return x + launches[-1].grid[0] * (y + launches[-1].grid[1] * z)
    element = re.match(r"(\w+)\[(\d+)\]\[(\d+)\] is ", report)
    for launch in traced(command, None, **environment)[0] if element else ():
        array = launch.arrays.get(("global", element[1]))
        for traced_block in launch.blocks if array else ():
            wrong = (int(element[2]) * array.shape[-1] + int(element[3])) * array.element_bytes
            for event in traced_block.events:
                if event["event"] == "store" and any(name == array.name and 0 <= wrong - byte < event["bytes"]
                                                     for name, byte in traces.places(event["at"])):
                    return traced_block.number
    return 0


def of_program(program, step, kernel, options, block=None, title=None, note="", **environment):
    """Returns (title, what its page shows) of one kernel of a step's program."""
    arguments = ["--kernel", kernel, "--json", *options]
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, cwd=ROOT,
                          env={**os.environ, "SIMT_WORKERS": "1", **environment})
    try:
        report = json.loads(done.stdout)
        row = report["kernels"][0]
    except (ValueError, LookupError):
        raise Unable(f"{program} {' '.join(arguments)}: {done.stderr.strip()}") from None
    if row["check"] in ("refused", "skipped"):
        raise Unable(f"{kernel}: {row['reason']}")
    if block is None:
        block = block_of(row["reason"], [program, *arguments], environment) if row["check"] != "pass" else 0
    launches, _ = traced([program, *arguments], block, **environment)
    if row.get("where"):  # this runs twice, to see whether the values depend on the order
        launches = launches[:(len(launches) + 1) // 2]
    sizes = "  ".join(f"{key} {value}" for key, value in report["sizes"].items() if value)
    about = {"step": step, "kernel": kernel, "sizes": sizes, "run": row, "note": note, **places_of(kernel),
             "command": f"make run-{step[:2]} KERNEL={kernel}" if not options else f"build/check/{step} --kernel {kernel} {shlex.join(options)}"}
    title = title or f"{step[:2]} · {kernel}"
    return title, pack_all(title, about, launches, [ROOT, pathlib.Path(program).parent])


def places_of(kernel):
    """Returns where a kernel's page leads: to its source, its page in the book, and the page of the rung that it follows."""
    rows, names = facts.kernels(), list(facts.kernels())
    row, lesson = rows[kernel], lesson_of(facts.source(kernel)).parent.relative_to(ROOT)
    after = row["after"] or next(iter(names[names.index(kernel) - 1:names.index(kernel)]), "")
    after = after and f"{rows[after]['step'][:2]}_{after}"
    return {"home": f"{row['step']}/{row['file']}", "lesson": f"{lesson.as_posix()}/{kernel}.html", "before": after}


def of_kernel(step, kernel, options="", block=None):
    """Returns (title, what its page shows) of one of the project's kernels, at the sizes of its row or at these."""
    row = facts.kernels()[kernel]
    return of_program(str(ROOT / "build/check" / step), step, kernel, shlex.split(options or row["shown_sizes"]), block)


def show_step(arguments):
    """Makes a page for each kernel, or one for the two that are named together."""
    kernels = arguments.kernel or [name for name, row in facts.kernels().items() if row["step"] == arguments.step]
    shown = [(of_mine if arguments.mine else of_kernel)(arguments.step, kernel, arguments.options, arguments.block) for kernel in kernels]
    names = [f"{arguments.step[:2]}_{kernel}{'_mine' if arguments.mine else ''}" for kernel in kernels]
    if arguments.kernel and len(shown) == 2:
        write("_and_".join([names[0], names[1][3:]]), page(" | ".join(title for title, _ in shown), [data for _, data in shown]), arguments.at)
    else:
        for name, (title, data) in zip(names, shown):
            write(name, page(title, [data]), arguments.at)


def of_mine(step, kernel, options="", block=None):
    """Returns (title, what its page shows) of the learner's own kernel: of the first case that it fails, if it fails one."""
    sys.path.insert(0, str(ROOT / "common/tools/learn"))
    import learn
    rung = next((rung for rung in learn.rungs_of(step) if rung.kernel == kernel), None)
    if rung is None or not rung.file.exists():
        raise Unable(f"you have no {kernel} yet: make learn STEP={step[:2]} begins it")
    learn.make_ours(step)
    with rung.turn():
        built, complaint = rung.build()
        if built is None:
            raise Unable("\n".join(complaint))
        runs = learn.judge_cases(built, kernel, "quick")
        failing = next(((sizes, order) for sizes, order, row in runs if row["check"] != "pass"), None)
        sizes = options or (failing[0] if failing else facts.kernels()[kernel]["shown_sizes"])
        return of_program(str(built), step, kernel, shlex.split(sizes), block, f"{step[:2]} · {kernel} (yours)",
                          SIMT_ORDER=failing[1] if failing else learn.ORDERS[0])


def show_broken(arguments):
    sys.path.insert(0, str(ROOT / "common/tools/broken"))
    import broken
    fault = broken.read_faults([arguments.fault])[0]
    fault.learners = arguments.fault == str(fault.exercise)
    with fault.turn():
        broken.copy_sources(fault, keep=fault.learners)
        program, kernel = broken.build(fault, "check"), fault.kernel
        runs = [(sizes, order) for sizes in fault.runs for order in broken.ORDERS]
        sizes, order = next((run for run in runs if broken.run(program, kernel, *run)[0]), runs[0])
        title, data = of_program(str(program), fault.step, kernel, sizes.split(), arguments.block, f"{kernel}, broken",
                                 fault.symptom if fault.learners else fault.wrong, SIMT_ORDER=order)
    write(f"broken_{arguments.fault}", page(title, [data]))


def show_program(arguments):
    launches, done = traced(arguments.command, arguments.block or 0)
    failed = bool(done.returncode) or any(launch.reports for launch in launches)
    run = {"check": "FAIL" if failed else "", "reason": done.stderr.strip()[-2000:] if failed else ""}
    name = pathlib.Path(arguments.command[0]).name
    about = {"step": "", "kernel": name, "sizes": "", "run": run, "note": "", "command": shlex.join(arguments.command)}
    write(name, page(name, [pack_all(name, about, launches, [pathlib.Path.cwd(), ROOT])]))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    step = commands.add_parser("step", help="kernels of a step, all of them when none is named")
    step.add_argument("step")
    step.add_argument("--kernel", action="append", type=facts.called)
    step.add_argument("--options", default="", help="of the step's program, in one argument")
    step.add_argument("--at", default="", help="open at the source line that holds this text")
    step.add_argument("--mine", action="store_true", help="the learner's kernels, in work/")
    step.set_defaults(show=show_step)
    fault = commands.add_parser("broken", help="a broken kernel, by number or name")
    fault.add_argument("fault")
    fault.set_defaults(show=show_broken)
    program = commands.add_parser("program", help="any program that simtcc --check built")
    program.add_argument("command", nargs=argparse.REMAINDER)
    program.set_defaults(show=show_program)
    for command in (step, fault, program):
        command.add_argument("--block", type=int, help="which block (0; of a failure, the one that it names)")
    arguments = parser.parse_args(arguments)
    try:
        arguments.show(arguments)
    except Unable as error:
        print(f"show: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    outfile.told(main)
