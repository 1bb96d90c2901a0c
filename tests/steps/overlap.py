#!/usr/bin/env python3
"""Shows what the kernels of a step do while copies and products are in flight, read from their traces.

  overlap.py [--kernel NAME] PROGRAM ...      programs of the checked build

Results and counts stay the same when a copy starts late or is waited for at once; only time is lost. So, in the order of each
warp's program:

copies    between its last order of a copy and its wait for that copy it reads other data from shared memory; where a ring has
          R places, more than R - 2 of them
barriers  what it waits for at an mbarrier of tiles that pass by (K and V, of gradients Q and dO) it uses, or gives back unread,
          before it passes the next of them
products  between its order of a product and its wait for it it takes maxima or sums of rows: every second time, that of P·V

A warp that has read nothing yet, or waits for the first time, has nothing to overlap with. Python's standard library suffices.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "common/tools"))
from traces import read  # noqa: E402 (its path is set above)

# Of a ladder or a problem, where a kernel has no own_sizes.
SIZES = {"matmul": "--m 64 --n 64 --k 256", "softmax": "--rows 1 --cols 66000",
         "attention": "--batch 1 --heads 1 --seq-q 64 --seq-kv 640 --head-dim 64",
         "decode": "--batch 8 --heads 1 --seq-q 1 --seq-kv 2048 --head-dim 64",
         "attention_backward": "--batch 1 --heads 1 --seq-q 640 --seq-kv 64 --head-dim 64"}
PASSING = {"attention_backward": ("Q", "dO")}  # the arrays whose tiles pass by; of other problems K and V
OVERLAPS_PRODUCTS = "overlap"  # this rung and those after it overlap products


class Warp:
    def __init__(self):
        self.uses = self.reductions = 0  # counted so far
        self.last = None  # `uses` when it last waited for copies of its own
        self.committed = -1  # the newest group of copies, which may be empty
        self.copies, self.products = {}, {}  # by group: `uses` or `reductions` when it was ordered
        self.places = collections.defaultdict(list)  # by group: where its copies go
        self.boxes = {}  # by mbarrier: `uses` when this warp ordered what completes it
        self.passed = None  # `uses` when it last passed an mbarrier of K or V
        self.between = collections.defaultdict(list)  # for each wait: how much `uses` or `reductions` grew since the order

    @staticmethod
    def waited(groups, newest, pending, so_far):
        """Returns what came between the order of the newest group that a wait covers and the wait; None when it covers none."""
        done = sorted(group for group in groups if group <= newest - pending)
        return so_far - [groups.pop(group) for group in done][-1] if done else None

    def least(self):
        """Returns how many uses must lie between the order of a copy and the wait."""
        times = collections.Counter(map(min, self.places.values()))
        ring = sum(count > 1 for count in times.values())
        return max(1, (ring - 2) * self.uses // max(1, len(self.places)) + 1)


def boxes_of(events, passing):
    """Returns {index of the event: mbarrier} of the TMA loads of tiles that pass by: those whose bytes their thread announced
    before."""
    announced, found = {}, {}
    for at, event in enumerate(events):
        if event["event"] == "mbarrier_arrive" and event["size"]:
            announced[event["warp"]] = event["at"][0][1]
        elif event["event"] == "tma_load" and event["at"][0][0] in passing:
            found[at] = announced[event["warp"]]
    return found


def watch(events, passing):
    """Returns the warps of one block, with their waits."""
    warps, boxes = collections.defaultdict(Warp), boxes_of(events, passing)
    for at, event in enumerate(events):
        warp, kind = warps[event.get("warp")], event["event"]
        if (kind == "load" and event["space"] == "shared") or kind == "wgmma":
            warp.uses += 1
        elif kind == "warp" and "shfl" in event["operation"]:
            warp.reductions += 1
        elif kind == "cp_async":
            warp.copies[event["value"]] = warp.uses
            warp.places[event["value"]].append(event["at"][0][1])
        elif kind == "cp_async_commit":
            warp.committed = event["value"]
        elif kind == "cp_async_wait" and warp.copies:
            ordered = warp.copies[min(warp.copies)]
            between = warp.waited(warp.copies, warp.committed, event["value"], warp.uses)
            if between is not None:
                if ordered and warp.last is not None:
                    warp.between["copies"].append(between)
                warp.last = warp.uses
        elif kind == "wgmma_commit":
            warp.products[event["value"]] = warp.reductions
        elif kind == "wgmma_wait" and warp.products:
            between = warp.waited(warp.products, max(warp.products), event["value"], warp.reductions)
            if between is not None:
                warp.between["products"].append(between)
        elif kind == "mbarrier_arrive" and not event["size"] and warp.passed == warp.uses:
            warp.passed = None
        elif at in boxes:
            warp.boxes[boxes[at]] = warp.uses
        elif kind == "mbarrier_passed" and event["at"][0][1] in boxes.values():
            ordered = warp.boxes.pop(event["at"][0][1], 0)
            if ordered:
                warp.between["copies"].append(warp.uses - ordered)
            if warp.passed is not None:
                warp.between["barriers"].append(warp.uses - warp.passed)
            warp.passed = warp.uses
    for warp in warps.values():
        if warp.last == warp.uses and warp.between["copies"]:  # these copies are past the end: the warp waits for them and does not read them
            warp.between["copies"].pop()
    return warps.values()


def trace_of(program, kernel, sizes):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace")
        subprocess.run([program, "--kernel", kernel, *sizes.split(), "--trace", path, "--trace-block", "0"], check=True,
                       capture_output=True)
        return [event for event in read(path) if "t" in event and event["event"] != "block_end"]


def listings(program, kernel):
    """Yields what a program lists of each problem that it solves, or of one kernel's."""
    for options in [["--kernel", kernel]] if kernel else [[], ["--ladder", "backward"]]:
        listed = subprocess.run([program, *options, "--list", "--json"], capture_output=True, text=True)
        if listed.returncode == 0 or not options or kernel:
            listed.check_returncode()
            yield json.loads(listed.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--kernel")
    options = parser.parse_args()
    failed = 0
    print(f"{'kernel':<22} {'what':<10} {'waits':>6} {'with too little before':>22}")
    for program in options.programs:
        names = [kernel["name"] for kernel in next(listings(program, None))["kernels"]]
        overlapping = names[names.index(OVERLAPS_PRODUCTS):] if OVERLAPS_PRODUCTS in names else []
        for problem, kernel in [(listing["problem"], kernel) for listing in listings(program, options.kernel)
                                for kernel in listing["kernels"]]:
            name = kernel["name"]
            waits, idle, allowed = collections.Counter(), collections.Counter(), collections.Counter()
            for warp in watch(trace_of(program, name, kernel["own_sizes"] or SIZES.get(kernel["ladder"], SIZES[problem])), PASSING.get(problem, ("K", "V"))):
                for kind, between in warp.between.items():
                    waits[kind] += len(between)
                    idle[kind] += sum(uses < (warp.least() if kind == "copies" else 1) for uses in between)
                    # Nothing need come before the waits for S of each block, which the next step needs, and for the last block's
                    # P·V.
                    allowed[kind] += len(between) // 2 + 1 if kind == "products" else 0
            for kind in waits:
                bad = idle[kind] > allowed[kind] and (kind != "products" or name in overlapping)
                failed += bad
                print(f"{name:<22} {kind:<10} {waits[kind]:6} {idle[kind]:22}{'  FAILED' if bad else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
