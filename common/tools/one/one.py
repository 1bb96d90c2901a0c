#!/usr/bin/env python3
"""Writes one kernel as one self-contained .cu file, with a small main() that checks it.

    common/tools/one/one.py KERNEL [FILE]      without FILE: stdout

The file needs no header of the project: nvcc compiles it, and so does common/simt/simtcc, without any -I. It holds the
kernel's file, the .cuh files that this includes, those instructions of ptx.cuh, those functions of common/*.c and that
workspace of NN_step.c that are used, the problem's reference, and a check (matmul.cu, softmax.cu, attention.cu or attention_backward.cu
beside this script) at those of the problem's quick cases that sizes alone make (facts.py). Nothing is compiled for it but the rows.
"""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import facts  # noqa: E402  (its path is set above)
import outfile  # noqa: E402
from source import ROOT, behind, closure, of_steps, resolved, without_comments  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SIZES = {"attention_backward": "batch heads kv_heads seq_q seq_kv head_dim causal",
         "matmul": "m n k", "softmax": "rows cols", "attention": "batch heads kv_heads seq_q seq_kv head_dim causal window soft_cap alibi"}
SAME = {"kv_heads": "heads", "seq_q": "seq", "seq_kv": "seq"}  # where a case does not say

# A kernel's file may use these parts of the project, in the order in which they must stand. Unused ones are left out.
LIBRARY = (
    ("common/harness/problem.h", "tensor_type"), ("common/harness/problem.h", "cost"), ("common/harness/problem.h", "UNIT_ROUNDOFF_F32"),
    ("common/harness/refusal.h", "MAX_EXTENT"),
    ("common/problems/matmul.h", "matmul_fn"), ("common/problems/softmax.h", "softmax_fn"), ("common/problems/attention.h", "attention"),
    ("common/problems/attention_backward.h", "attention_backward"),
    *(("common/harness/problem.c", name) for name in (
        "roundings", "tensor_element_bytes", "tensor_roundoff", "tensor_smallest_normal", "float_of", "half_value", "tensor_element",
        "tensor_elements", "bits_of", "tensor_store")),
    *(("common/problems/attention.c", name) for name in ("attention_rows", "attention_query_rows")),
    *(("common/problems/attention_backward.c", f"attention_backward_{name}_rows") for name in ("query", "key")),
    ("common/device/backend.c", "backend_architecture"),
    ("common/harness/refusal.c", "sentence"), ("common/harness/refusal.c", "refuse"), ("common/harness/refusal.c", "refusal"),
    ("common/harness/refusal.c", "require_blocks"), ("common/harness/tensor_map.h", "TENSOR_MAP_BOX_COLS"),
    ("common/harness/tensor_map.c", "encode_fn"), ("common/harness/tensor_map.c", "find_encoder"),
    ("common/harness/tensor_map.c", "tensor_map_of_halves"),
    *(("common/device/device.h", name) for name in ("device_attribute", "memory_speed_of_device", "current_device")))

# What its check takes of the problem's file, in a namespace: the reference and its error bound.
REFERENCE = {
    "matmul": ("strides", "strides_of", "product", "bound_of"),
    "attention_backward": (
        "MAX_HEAD_DIM", "gradients", "sum", "dot", "query", "key", "begin_query", "begin_key", "pair", "pair_of", "add", "finish",
        "clear_rows", "row_of_dQ", "TOGETHER", "rows_of_dK", "queries_of_group", "bound_of"),
    "softmax": ("statistics", "statistics_of", "reference_row", "bound_of"),
    "attention": ("MAX_HEAD_DIM", "pages_of_sequence", "keys_of", "key_row", "query", "dot", "begin", "bias_of", "score_of", "raise_maximum", "weigh", "add", "float_bound", "bound_of",
                  "finish", "reference_rows")}

GUARD = re.compile(r"^#ifndef (\w+)\n#define \1\n(.*)^#endif\n", re.M | re.S)
LINKAGE = re.compile(r'^#ifdef __cplusplus\n(?:extern "C" \{|\})\n#endif\n', re.M)
INCLUDE = re.compile(r'^#include (?:"([^"]+)"|(<[^>]+>))\n', re.M)


def words(text):
    return set(re.findall(r"[A-Za-z_]\w*", without_comments(text)))


def chunks(text):
    """Returns the declarations of a source with their comments: blank lines separate them, and { } and #if stay whole."""
    found = []
    for part in re.split(r"\n\s*\n", LINKAGE.sub("", GUARD.sub(r"\2", text))):
        last = found[-1] if found else ""
        conditions = len(re.findall("^#if", last, re.M)) - len(re.findall("^#endif", last, re.M))
        if last.count("{") > last.count("}") or conditions > 0:
            found[-1] += "\n\n" + part
        else:
            found.append(part.strip("\n"))
    return found


def defines(chunk):
    """Returns the names that a chunk defines."""
    code = without_comments(chunk)
    names = set(re.findall(r"^#define (\w+)", code, re.M))
    code = re.sub(r"^#.*(?:\\\n.*)*\n?", "", code, flags=re.M)
    if re.match(r"\s*(?:typedef )?enum\b", code):
        names |= set(re.findall(r"[{,]\s*(\w+)", code))
    at_top = re.sub(r"^[ }].*\n?", "", code, flags=re.M)  # clang-format indents all but what is declared here
    for line in re.split(r"[;{]\s*$", re.sub(r"^template <.*>$", "", at_top, flags=re.M), flags=re.M):
        if name := re.search(r"(\w+)\s*(?:[({\[=]|$)", re.sub(r"<[^<>]*>", "", line).strip()):
            names.add(name[1])
    return names


def exports(path):
    """Returns the C functions that a .cu file gives to others."""
    given = [chunk for chunk in chunks(path.read_text()) if re.search('^extern "C"', chunk, re.M)]
    return {name for chunk in given for name in defines(chunk)}


def callees(path, seen=()):
    """Returns the step's other .cu files whose functions a file calls, each after those that it calls itself."""
    found = []
    for other in of_steps("*.cu", path.relative_to(ROOT).parts[0]):
        if other not in (path, *seen, *found) and words(path.read_text()) & exports(other):
            found += [*callees(other, (path, *seen, *found)), other]
    return found


def used(candidates, text):
    """Returns the chunks that the text needs, directly or through one another, in their order."""
    needed, kept = words(text), set()
    while more := {index for index, chunk in enumerate(candidates) if index not in kept and defines(chunk) & needed}:
        kept |= more
        for index in more:
            needed |= words(candidates[index])
    return [chunk for index, chunk in enumerate(candidates) if index in kept]


class One:
    """Holds the text of one file as it grows."""

    def __init__(self, step):
        self.step = ROOT / step
        self.system, self.headers, self.of_step, self.seen = [], [], [], set()

    def kernel(self, path):
        """Takes a kernel's file after the step's headers that it includes. These may name types that the file defines."""
        self.of_step, self.seen = [], {seen for seen in self.seen if not seen.is_relative_to(self.step)}
        text = re.sub(r"^// needs: .*\n", "", self.take(path))
        return "\n".join((*self.of_step, text))

    def take(self, path):
        """Returns a source without its #includes. The files that it includes become headers, after those that they include."""
        self.seen.add(path)
        text = GUARD.sub(r"\2", path.read_text()) if path.suffix != ".cu" else path.read_text()
        return INCLUDE.sub(lambda match: self.included(path, match), text).strip("\n") + "\n"

    def included(self, source, match):
        if match[2]:
            self.system += [match[2]] if match[2] != "<ptx.cuh>" else []  # instructions() has what is used of <ptx.cuh>
            return ""
        path = resolved(source, match[1])
        own = path.is_relative_to(self.step)
        # The library has what is used of a .h file of common, and a step's prototypes are left out.
        if path not in self.seen and (path.suffix == ".cuh" or own and not path.name.endswith("_step.h")):
            text = self.take(path)  # this may append other headers
            (self.of_step if own else self.headers).append(text)
        return ""

    def used_of_common(self, text, parts=LIBRARY):
        origin = {}
        for source, name in parts:
            code = (ROOT / source).read_text()
            chunk = next((chunk for chunk in chunks(INCLUDE.sub("", code)) if name in defines(chunk)), None)
            if chunk is None:
                raise outfile.Refused(f"{source} does not define {name}")
            origin[chunk.replace("_Thread_local", "thread_local")] = code
        kept = used(list(origin), text)
        for chunk in kept:
            self.system += [match[2] for match in INCLUDE.finditer(origin[chunk]) if match[2]]
        return "\n\n".join(kept)

    def reference(self, problem, text):
        parts = [(f"common/problems/{problem}.c", name) for name in REFERENCE[problem]]
        return f"namespace reference\n{{\n{self.used_of_common(text, parts)}\n}}\n"

    def instructions(self, text):
        """Returns the wrappers of PTX instructions that the text uses. The CPU backend brings its own."""
        source = (ROOT / "common/device/gpu/ptx.cuh").read_text()
        kept = used(chunks(INCLUDE.sub("", source))[1:], text)
        if not kept:
            return ""
        self.system += [match[2] for match in INCLUDE.finditer(source) if match[2]]
        return "#if __has_include(<ptx.cuh>) /* the CPU backend has its own */\n#include <ptx.cuh>\n#else\n\n" + \
            "\n\n".join(kept) + "\n\n#endif\n"


    def workspace(self, step, name):
        """Returns (function, text): what the kernel's row says of its workspace, with what the kernel's file lacks."""
        table, = of_steps("*_step.c", step)
        code = without_comments(table.read_text())
        row = re.search(rf"_ROW\(\s*{name},", code)
        function = re.search(r"\.workspace = (\w+)", code[row.end():behind(code, row.end())])
        if not function:
            return "", ""
        headers = [path for path in closure(table) if path.is_relative_to(self.step) and path not in self.seen]
        texts = [INCLUDE.sub("", path.read_text()) for path in (*headers, table)]
        return function[1], "\n\n".join(used([chunk for text in texts for chunk in chunks(text)], function[1]))


def loop(kernel):
    """Returns (sizes, main): the cases and the variables that hold one of them, and a main() that checks each."""
    names, rows = SIZES[kernel["problem"]].split(), []
    for options in kernel["quick"]:
        if "--lengths" in options or "--page" in options:  # these are drawn
            continue
        given = {size.replace("-", "_"): value or "1" for size, value in re.findall(r"--(\S+)(?: (\d+))?(?= --|$)", re.sub(r" --type \w+", "", options))}
        rows.append([given.get(size) or given.get(SAME.get(size), "0") for size in names])
    table = ",\n".join("    {" + ", ".join(row) + "}" for row in rows)
    sizes = f"static const struct {{\n    int {', '.join(names)};\n}} cases[] = {{\n{table}}};\nstatic int {', '.join(names)};"
    set_sizes = "\n".join(f"        {size} = cases[i].{size};" for size in names)
    main = f"""int main(void)
{{
    need_architecture({json.dumps(kernel['architecture'])});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {{
{set_sizes}
        if (!check())
            return 1;
    }}
    return 0;
}}"""
    return sizes, main


def make(name):
    name = facts.called(name)
    if name not in facts.kernels():
        raise outfile.Refused(f"KERNEL is '{name}'; it must be one of {', '.join(facts.kernels())}")
    kernel = facts.kernels()[name]
    step, problem = kernel["step"], kernel["problem"]
    one = One(step)

    file = facts.source(name)
    files = [*callees(file), file]
    bodies = [one.kernel(path) for path in files]
    workspace, its_text = one.workspace(step, name)
    if not workspace and re.search(r"->workspace\b", without_comments(bodies[-1])):
        raise outfile.Refused(f"{file.name} uses a workspace, and {name}'s row names no function for its size")
    bodies[-1] += f"\n{its_text}\n" if workspace else ""
    if len(files) > 1:  # a namespace keeps their names apart, and macros end with their files
        for i, path in enumerate(files):
            space = (path.stem.partition("_")[2] if path.stem[0].isdigit() else path.stem) + "_file"
            given = exports(path) | ({workspace} if path == file else set())
            used_later = given & words(" ".join((*bodies[i + 1:], f"{kernel['function']} {workspace}")))
            macros = "".join(f"#undef {name}\n" for name in re.findall(r"^#define (\w+)", bodies[i], re.M))
            bodies[i] = f"namespace {space}\n{{\n{bodies[i]}}}\n{macros}" + \
                "".join(f"using {space}::{function};\n" for function in sorted(used_later))
    body = "\n".join(bodies)
    headers, one.headers = "\n".join(one.headers), []
    check = one.take(HERE / f"{problem}.cu")
    constants, main_function = loop(kernel)
    check = "\n".join((*one.headers, check, main_function))
    architecture = kernel["architecture"]
    check = re.sub(r"\bKERNEL\b", kernel["function"], check)
    check = re.sub(r"\bWORKSPACE\b", f"{workspace}(&call)" if workspace else "0", check)
    check = re.sub(r"\bNAME\b", name, check)
    if problem.startswith("attention"):
        constants += f"\nstatic const enum tensor_type type = TENSOR_{kernel['types'][0].upper()};"

    reference = one.reference(problem, check)
    library = one.used_of_common(headers + body + reference + check + constants)
    instructions = one.instructions(headers + body)
    arch = f"-arch={architecture or 'sm_75'}"
    if architecture.endswith("a"):
        arch = f"-gencode arch={architecture.replace('sm', 'compute')},code={architecture}"
    gpu = f"nvcc -std=c++17 -O3 {arch} THIS.cu -o check && ./check"
    cpu = "common/simt/simtcc THIS.cu -o check && ./check"
    native = "" if architecture else " * With -arch=native in place of -arch=sm_75 it uses all that your own GPU can do.\n"
    banner = f"""/*
 * {step}, {name}: {kernel['idea']}.
 *
 *     {gpu}     on a GPU
 *     {cpu:<{len(gpu)}}     on a CPU, in a clone of the project
 *
{native} * It prints PASS or FAIL; exit status 0, 1, or 3 where the device is too old. Made by `make one KERNEL={name}`.
 */
"""
    system = "".join(f"#include {header}\n" for header in sorted(set(one.system)))
    parts = (banner + system, headers, library, instructions, body, constants, reference, check)
    return "\n".join(part.strip("\n") + "\n" for part in parts if part.strip())


def main(arguments):
    if not 1 <= len(arguments) <= 2:
        raise outfile.Refused(__doc__)
    if sys.stdout is None:
        raise outfile.Refused("standard output is closed: there is nowhere to print to")
    name, out = arguments[0], arguments[1] if len(arguments) > 1 else ""
    if out:
        outfile.writable(out)
    text = make(name)
    if not out:
        sys.stdout.write(text)
    elif not (file := pathlib.Path(out)).is_file() or file.read_bytes() != text.encode():
        outfile.write(file, text)


if __name__ == "__main__":
    outfile.told(main)
