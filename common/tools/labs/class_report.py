#!/usr/bin/env python3
"""Reports on a graded class, as a CSV file and a page.

    common/tools/labs/class_report.py RESULTS OUT [SUBMISSIONS]

RESULTS has a results file of the format `gradescope` for each submission, under the submission's name; SUBMISSIONS has
the submissions themselves, folders of the same names. OUT.csv gets a line for each: its score, the points of each kernel,
and which claims are kept. OUT.html shows the same with the distribution, the mistakes that were made most often in the
judge's words, and, where there are SUBMISSIONS, pairs of them that share much of what others do not have.
"""
import collections
import csv
import html
import io
import itertools
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import outfile  # noqa: E402
from source import ROOT, of_steps, tokens_of  # noqa: E402
from workshop import LIMIT, NotBuilt, submitted  # noqa: E402

GRAM = 12  # tokens: two submissions share a piece of so many when names are left out
COMMON = 0.25  # what so many of a class have in common is the handout's, or the lesson's
ALIKE = 0.5  # of the smaller submission's own pieces in the other one
SHOWN = 40  # pairs, mistakes


def read(folder):
    """Returns {name: results} of the files that are results."""
    found = {}
    for path in sorted(pathlib.Path(folder).iterdir()):
        try:
            found[path.stem if path.suffix == ".json" else path.name] = json.loads(path.read_text())["tests"]
        except (ValueError, KeyError, TypeError, OSError):
            print(f"{path}: no results in the format gradescope", file=sys.stderr)
    return found


def kernels_of(tests):
    """Returns {kernel: (points, most, claim kept)}; the last is None where the kernel claims nothing."""
    kernels = {}
    for test in tests:
        name = test["name"].partition(":")[0]
        points, most, kept = kernels.get(name, (0, 0, None))
        if "claims" in test["tags"]:
            kept = kept in (None, True) and test.get("status") == "passed"
        kernels[name] = points + test["score"], most + test["max_score"], kept
    return kernels


def mistakes(results):
    """Returns [(what the judge said, kernel, names of those it was said to)], the most frequent first."""
    said = collections.defaultdict(set)
    for name, tests in results.items():
        for test in tests:
            what = re.sub(r", at \S+$", "", test["output"].removeprefix("failed: "))
            if test.get("status") == "failed" and "claims" not in test["tags"] and "was not run" not in what:
                said[what, test["name"].partition(":")[0]].add(name)
    return sorted(((what, kernel, names) for (what, kernel), names in said.items()), key=lambda entry: -len(entry[2]))


def sources(folder):
    """Yields the texts that a submission has where the grader would take a kernel from."""
    for path in of_steps("*.cu*"):
        step, name = path.relative_to(ROOT).as_posix().split("/", 1)
        try:
            yield submitted(folder, step, name).decode(errors="replace")
        except FileNotFoundError:
            pass
        except (OSError, NotBuilt, ValueError):
            print(f"{folder}: {name} is not a regular file of at most {LIMIT} bytes", file=sys.stderr)


def pieces(folder):
    """Returns the pieces of a submission's sources: every name is the same, so that renaming hides nothing."""
    found = set()
    for text in set(sources(folder)):
        words = ["x" if re.match(r"[A-Za-z_]", word) else word for word, _, _ in tokens_of(text)]
        found |= {hash(tuple(words[i:i + GRAM])) for i in range(len(words) - GRAM + 1)}
    return found


def alike(submissions, names):
    """Returns [(share, name, name)] of pairs that share much which few others have, the most alike first."""
    of = {name: pieces(pathlib.Path(submissions) / name) for name in names if (pathlib.Path(submissions) / name).is_dir()}
    times = collections.Counter(piece for own in of.values() for piece in own)
    most = max(2, COMMON * len(of))
    own = {name: {piece for piece in found if times[piece] <= most} for name, found in of.items()}
    pairs = [(len(own[a] & own[b]) / min(len(own[a]), len(own[b])), a, b) for a, b in itertools.combinations(own, 2) if own[a] and own[b]]
    return sorted((pair for pair in pairs if pair[0] >= ALIKE), reverse=True)


def row_of(name, tests, columns):
    kernels = kernels_of(tests)
    row = [name, f"{sum(points for points, _, _ in kernels.values()):.4g}"]
    for column in columns:
        points, _, kept = kernels.get(column, (0, 0, None))
        row += [f"{points:.4g}", {True: "kept", False: "not kept", None: ""}[kept]]
    return row


def table(head, rows):
    cells = "\n".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return "<table>\n<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in head) + f"</tr>\n{cells}\n</table>\n"


def page(results, head, rows, pairs):
    scores = [float(row[1]) for row in rows]
    most = max((sum(most for _, most, _ in kernels_of(tests).values()) for tests in results.values()), default=0)
    tenths = collections.Counter(min(int(10 * score / most), 9) if most else 0 for score in scores)
    said = [(len(names), kernel, what) for what, kernel, names in mistakes(results)[:SHOWN]]
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>A class's results</title>
<style>
:root {{ color-scheme: light dark; font-family: system-ui, sans-serif; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
td, th {{ border-bottom: 1px solid #8888; padding: 0.2em 0.7em; text-align: left; }}
</style>
<h1>{len(rows)} submissions, of at most {most:.4g} points</h1>
<h2>Points</h2>
{table(["points, % of all", "submissions"], [(f"{10 * tenth} to {10 * tenth + 10}", tenths[tenth]) for tenth in range(10)])}
<h2>Said most often</h2>
{table(["submissions", "kernel", "what"], said)}
<h2>Alike</h2>
<p>Share of the smaller one's pieces of {GRAM} tokens, names apart, that the other has too and few of the class have.
Read them before you say anything: this finds what to read, and proves nothing.</p>
{table(["share", "submission", "submission"], [(f"{share:.0%}", a, b) for share, a, b in pairs[:SHOWN]])}
<h2>Each</h2>
{table(head, rows)}
</html>
"""


def main(arguments):
    if len(arguments) not in (2, 3) or not pathlib.Path(arguments[0]).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    results, out = read(arguments[0]), arguments[1]
    for name in (f"{out}.csv", f"{out}.html"):
        outfile.writable(name)
    if not results:
        print(f"there are no results in {arguments[0]}", file=sys.stderr)
        return 2
    columns = list(dict.fromkeys(name for tests in results.values() for name in kernels_of(tests)))
    head = ["submission", "points"] + [title for name in columns for title in (name, f"{name}: claim")]
    rows = [row_of(name, tests, columns) for name, tests in results.items()]
    lines = io.StringIO(newline="")
    csv.writer(lines).writerows([head, *rows])
    outfile.write(f"{out}.csv", lines.getvalue())
    pairs = alike(arguments[2], results) if len(arguments) == 3 else []
    outfile.write(f"{out}.html", page(results, head, rows, pairs))
    print(f"{len(rows)} submissions: {out}.csv, {out}.html")
    return 0


if __name__ == "__main__":
    outfile.told(main)
