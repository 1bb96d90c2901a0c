#!/usr/bin/env python3
"""Asks ncu (Nsight Compute) what each rung keeps busy. Python's standard library only.

    common/tools/bench/ncu_profile.py STEP ...          profiles on a GPU: docs/results/STEP_ncu.csv and the lesson's tables
    common/tools/bench/ncu_profile.py --table STEP ...  the table only, from the CSV file that is there
    common/tools/bench/ncu_profile.py --check STEP ...  writes nothing; fails when a lesson's table is not what the CSV file says

Of a rung's launches, the kernel that takes longest is shown. ncu runs it once for each group of counters, with the clock held at
its base: shares are of the peak at that clock. Needs build/gpu/STEP.
"""
import argparse
import concurrent.futures
import csv
import io
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "docs/make"))
import lessons  # noqa: E402
from source import of_steps  # noqa: E402  (lessons has set its path)

JOBS = 8  # programs at a time; ncu lets only one of them use the counters, while the others check their results on the CPU

# The sizes are large enough to fill a GPU, and small enough for the reference on the CPU.
SIZES = {
    "01": {"m": 1024, "n": 1024, "k": 1024},
    "02": {"m": 2048, "n": 2048, "k": 2048},
    "03": {"rows": 512, "cols": 131072},
    "04": {"batch": 4, "heads": 32, "seq": 1024, "head-dim": 64},
    "05": {"batch": 4, "heads": 32, "seq": 1024, "head-dim": 64},
    "06": {"batch": 4, "heads": 16, "seq": 2048, "head-dim": 128, "causal": None},
}

# name in the CSV file: (ncu's metric, heading in the lesson)
METRICS = {
    "nanoseconds": ("gpu__time_duration.sum", None),
    "issue": ("smsp__issue_active.avg.pct_of_peak_sustained_active", "issue slots"),
    "fma": ("sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", "FMA pipe"),
    "tensor": ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "tensor pipe"),
    "dram": ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM"),
    "l2": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", "L2"),
    "wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", None),
    "conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "bank conflicts"),
    "warps": ("sm__warps_active.avg.per_cycle_active", "warps per SM"),
    "registers": ("launch__registers_per_thread", "registers"),
}


def options(step):
    return [f"--{name}" if value is None else f"--{name}={value}" for name, value in SIZES[step[:2]].items()]


def rungs(step):
    listed = subprocess.run([ROOT / "build/gpu" / step, "--list"], check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line and not line[0].isspace()]


def run_ncu(step, rung):
    metrics = ",".join(metric for metric, _ in METRICS.values())
    return subprocess.run(["ncu", "--csv", "--print-units", "base", "--launch-count", "8", "--metrics", metrics,
                           ROOT / "build/gpu" / step, f"--kernel={rung}", "--repeat=1", *options(step)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


def longest_kernel(output):
    """Returns {metric: value} for the launch that took longest; empty when ncu measured nothing."""
    lines = output.splitlines()
    header = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if header is None:
        return {}
    launches = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[header:]))):
        if row.get("Metric Name"):
            launch = launches.setdefault(row["ID"], {"kernel": row["Kernel Name"].split("(")[0]})
            try:
                launch[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
            except ValueError:
                pass  # this GPU lacks the counter
    return max(launches.values(), key=lambda launch: launch.get("gpu__time_duration.sum", 0.0))


def profile(step):
    found = {}
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        order = rungs(step)
        for rung, output in zip(order, pool.map(lambda rung: run_ncu(step, rung), order)):
            found[rung] = longest_kernel(output)
            if not found[rung]:
                last = output.strip().splitlines()[-1] if output.strip() else "no output"
                print(f"{step}: nothing about {rung}: {last}", file=sys.stderr)
    device = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], check=True,
                            capture_output=True, text=True).stdout.splitlines()[0]
    with open(lessons.RESULTS / f"{step}_ncu.csv", "w", encoding="utf-8", newline="") as file:
        file.write(f"# device: {device}\n# run: build/gpu/{step} {' '.join(options(step))}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["rung", "kernel", *METRICS])
        for rung, launch in found.items():
            if launch:
                writer.writerow([rung, launch["kernel"], *(launch.get(metric, "") for metric, _ in METRICS.values())])
    return all(found.values())


def names_on(page):
    """The rungs in a page's table. Where a step's README.md leaves it to a ladder's page, the first such page has them all."""
    holders = lessons.pages_with(page, "ncu")
    if holders[0] != page or page.parent.parent == lessons.ROOT:
        return lessons.shown_on(page)
    elsewhere = {name for other in holders[1:] for name in lessons.shown_on(other)}
    return [rung.name for rung in lessons.ladder.rungs(lessons.step_of(page)) if rung.name not in elsewhere]


def table(page, step):
    comments, rows = lessons.results(f"{step}_ncu.csv")
    shown = [name for name, (_, heading) in METRICS.items() if heading]
    if all(float(row["tensor"] or 0.0) < 10.0 for row in rows):  # these counts are stray: there are no products of matrices
        shown.remove("tensor")
    text = lessons.paragraph(
        f"By ncu on one {comments['device'].split(',')[0]}, `make profile-{step[:2]}`, sizes "
        f"`{comments['run'].split(' ', 1)[1]}`: shares in % of the peak, bank conflicts in % of the passes over shared "
        f"memory; of what a rung launches, the kernel that takes longest "
        f"([{step}_ncu.csv]({os.path.relpath(lessons.RESULTS, page.parent)}/{step}_ncu.csv)).")
    lines, names = [], names_on(page)
    for row in rows:
        if row["rung"] not in names:
            continue
        cells = []
        for name in shown:
            value = float(row[name]) if row[name] else None
            if name == "conflicts":
                passes = float(row["wavefronts"] or 0.0)
                value = 100.0 * value / passes if value is not None and passes else None
            cells.append("–" if value is None else f"{value:.0f}")
        lines.append([f"`{row['rung']}`", *cells])
    return text + "\n\n" + lessons.table(["rung", *(METRICS[name][1] for name in shown)], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("steps", nargs="+")
    arguments = parser.parse_args()
    done = True
    for step in arguments.steps:
        if not (arguments.table or arguments.check):
            done = profile(step) and done
        for page in of_steps("README.md", step):
            done = lessons.fill(page, {"ncu": lambda page, step=step: table(page, step)}, not arguments.check,
                                f"common/tools/bench/ncu_profile.py --table {step} writes what {step}_ncu.csv says") and done
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
