#!/usr/bin/env python3
"""Checks that the trace agrees with the counters.

Runs kernels of every kind with --trace and adds up their events, block by block and launch by launch. The sums must be the
counters of the same run, and the sectors, lines and wavefronts of an event must follow from its addresses.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../common/tools"))
from traces import moved, read  # noqa: E402

RUNS = [
    "01_naive_matmul --m 33 --n 20 --k 10",
    "02_tiled_matmul --kernel shared_tile --kernel vectorized --kernel async --m 33 --n 36 --k 20",
    "03_online_softmax --rows 2 --cols 300",
    "03_online_softmax --kernel online_cluster --rows 1 --cols 66000",
    "04_flash_v1 --batch 1 --heads 1 --seq 18 --head-dim 16",
    "05_flash_v2 --batch 1 --heads 1 --seq 18 --head-dim 16",
    "06_causal_half --kernel wmma --kernel mma_async --kernel mma_tma --kernel wgmma --kernel overlap --kernel tma_store"
    " --kernel persistent_blocks --batch 1 --heads 1 --seq 70 --head-dim 16 --causal",
    "06_causal_half --kernel folded --batch 1 --heads 1 --seq-q 140 --seq-kv 1030 --head-dim 72 --causal",
]
GLOBAL = {"load": "global_load", "store": "global_store", "tma_load": "global_load", "tma_store": "global_store"}


# These counters are no sums over events.
NOT_SUMS = ("blocks", "threads", "matrix_multiplies", "wave_accesses", "loads_ahead", "copies_ahead", "copies_in_flight", "products_in_flight")


def count(event, sums):
    """Adds one event to the counters of its block."""
    kind, lanes = event["event"], bin(event.get("lanes", 1)).count("1")
    if kind in ("load", "store") and event["space"] == "shared":
        sums[f"shared_{kind}s"] += lanes
        sums["shared_wavefronts"] += event["wavefronts"]
        sums["shared_wavefronts_ideal"] += event["ideal"]
    elif kind in GLOBAL:
        sums[GLOBAL[kind] + "s"] += lanes
        sums[GLOBAL[kind] + "_bytes"] += lanes * event["bytes"]
        sums[GLOBAL[kind] + "_requests"] += 1
        sums[GLOBAL[kind] + "_sectors"] += event["sectors"]
    if kind in ("tma_load", "tma_store"):
        sums["shared_stores" if kind == "tma_load" else "shared_loads"] += 1
        sums["shared_wavefronts"] += event["wavefronts"]
        sums["shared_wavefronts_ideal"] += event["wavefronts"]
    elif kind == "cluster_store":
        for name in ("shared_stores", "shared_wavefronts", "shared_wavefronts_ideal"):
            sums[name] += lanes
    elif kind in ("barrier", "named_barrier", "grid_barrier", "cluster_barrier"):
        sums["barriers"] += 1
    elif kind in ("atomic_read", "atomic_write", "atomic_update"):
        sums["atomics"] += lanes


def differences(what, sums, record):
    counted = {name: value for name, value in record.items() if name not in ("event", "t", "block", "launch", *NOT_SUMS)}
    return [f"{what}: {name} is {counted[name]}, its events add up to {sums[name]}"
            for name in counted if counted[name] != sums[name]]


def faults(events):
    """Returns sentences on what is wrong in a trace of all blocks, and the sums of all launches."""
    found, total, kinds = [], collections.Counter(), collections.Counter()
    if events[0] != {"event": "trace", "version": 1}:
        found.append(f"it begins with {events[0]}")
    for event in events[1:]:
        kind = event["event"]
        kinds[kind] += 1
        if kind == "launch":
            begin, known, launch, name = {}, {}, collections.Counter(launches=1), event["kernel"]
        elif kind == "array":
            begin[event["space"], event["name"]] = event["begin"]
        elif kind == "block":
            block, clock = collections.Counter(), 0
        elif kind == "block_end":
            found += differences(f"{name}, block {event['block']}", block, event)
            launch += block
        elif kind == "launch_end":
            found += differences(name, launch, event)
            total += launch
        else:
            count(event, block)
            if event["t"] < clock:
                found.append(f"{name}: {event} comes after t {clock}")
            clock = event["t"]
            if kind in ("load", "store"):
                same = event["space"], event["bytes"], event["lanes"], str(event["at"])
                if same not in known:
                    known[same] = moved(event, begin)
                found += [f"{name}: {event}: {key} should be {value}"
                          for key, value in known[same].items() if event[key] != value]
    return found, total, kinds


def traced(trace, run, **environment):
    """Returns what a run that writes a trace prints."""
    command = f"build/check/{run} --json --trace {trace}"
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"{command}: exit status {done.returncode}\n{done.stderr}")
    return done


def parts(trace):
    """Returns sentences on what is wrong in a trace of some blocks, of one warp, and in one that depends on who runs it."""
    run, found = "02_tiled_matmul --kernel shared_tile --m 70 --n 70 --k 24", []
    traced(trace, run, SIMT_WORKERS="1", SIMT_TRACE_LIMIT="100")
    all_events = read(trace)
    traced(trace, run, SIMT_WORKERS="3", SIMT_TRACE_LIMIT="100")
    if read(trace) != all_events:
        found.append("three workers write another trace than one")

    done = traced(trace, run, SIMT_TRACE_LIMIT="1")
    events = read(trace)
    first = [event["block"] for event in events if event["event"] == "block_end"]
    full = [event for event in events if event["event"] == "full"]
    if full != [{"event": "full", "blocks": len(first)}] or first != list(range(len(first))) or not 0 < len(first) < 25:
        found.append(f"full with blocks {first}: {full}")
    if not 0.5 < os.path.getsize(trace) / 2**20 < 1.01:
        found.append(f"{os.path.getsize(trace)} bytes where 1 MB is the limit")
    if "is full: of kernel shared_tile" not in done.stderr:
        found.append(f"full, and the program says '{done.stderr}'")

    traced(trace, run + " --trace-block 3 --trace-warp 5")
    events = read(trace)
    inside = [event for event in all_events if event.get("block") == 3 and event.get("warp", 5) == 5]
    if [event for event in events if "block" in event] != inside or len(inside) < 50:
        found.append("--trace-block 3 --trace-warp 5 is not that part of the whole")
    return found


def main():
    failed, kinds = False, collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace")
        for fault in parts(trace):
            failed = True
            print(fault)
        for run in RUNS:
            done = traced(trace, run)
            found, total, seen = faults(read(trace))
            kinds += seen
            counted = collections.Counter()
            for kernel in json.loads(done.stdout)["kernels"]:
                counted += collections.Counter({name: kernel.get(name, 0) for name in total})
            if counted != total:
                found.append(f"the program counted {dict(counted)}, the trace {dict(total)}")
            for fault in found[:5]:
                print(f"{run}: {fault}")
            failed = failed or bool(found)
    wanted = {"load", "store", "barrier", "warp", "array", "cp_async", "cp_async_commit", "cp_async_wait", "tma_load",
              "tma_store", "tma_load_done", "mbarrier_init", "mbarrier_arrive", "mbarrier_wait", "mbarrier_phase",
              "wgmma", "wgmma_commit", "wgmma_wait", "named_barrier", "cluster_store", "cluster_barrier",
              "atomic_update", "thread_fence"}
    for kind in sorted(wanted - set(kinds)):
        print(f"no kernel's trace has an event {kind}")
    sys.exit(1 if failed or wanted - set(kinds) else 0)


if __name__ == "__main__":
    main()
