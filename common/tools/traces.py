"""Traces of the checked build (common/simt/README.md says what is in one): made by a run, and read."""
import collections
import dataclasses
import json
import os
import subprocess
import sys
import tempfile


@dataclasses.dataclass
class Array:
    """An array that a launch touched; begin is the place of the first byte, modulo 128. shape and type are empty if not known."""
    name: str
    space: str
    begin: int
    bytes: int
    type: str
    element_bytes: int
    shape: list


@dataclasses.dataclass
class Block:
    number: int
    index: list
    events: list = dataclasses.field(default_factory=list)
    counters: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Launch:
    """blocks are those traced; counters cover all blocks; untraced is the block at which the file was full."""
    kernel: str
    grid: list
    threads: list
    cluster: list
    line: str
    arrays: dict = dataclasses.field(default_factory=dict)
    blocks: list = dataclasses.field(default_factory=list)
    reports: list = dataclasses.field(default_factory=list)
    counters: dict = dataclasses.field(default_factory=dict)
    untraced: int | None = None


def read(path):
    """Returns the events of a trace, in order, as they are in the file."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def launches(events):
    """Returns the launches of a trace, each with its arrays by (space, name), its blocks and its reports."""
    if events[0] != {"event": "trace", "version": 1}:
        sys.exit(f"not a trace of version 1: {events[0]}")
    found = []
    for event in events[1:]:
        kind = event["event"]
        rest = {key: value for key, value in event.items() if key not in ("event", "launch", "t", "block")}
        if kind == "launch":
            found.append(Launch(**{key: rest.get(key, "") for key in ("kernel", "grid", "threads", "cluster", "line")}))
        elif kind == "array":
            found[-1].arrays[event["space"], event["name"]] = Array(**rest)
        elif kind == "block":
            found[-1].blocks.append(Block(event["block"], event["index"]))
        elif kind == "block_end":
            found[-1].blocks[-1].counters = rest
        elif kind == "launch_end":
            found[-1].counters = rest
        elif kind == "full":
            found[-1].untraced = event["blocks"]
        elif kind == "report":
            found[-1].reports.append(event)
        else:
            found[-1].blocks[-1].events.append(event)
    return found


def run(command, path, **environment):
    """Runs a command of the checked build that writes its trace to path. environment adds SIMT_TRACE_BLOCK and so on."""
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "SIMT_TRACE": path, **environment})


def of(command, **environment):
    """Returns the launches of a command, none where it writes no trace, with its output: (launches, completed process)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace")
        done = run(command, path, **environment)
        return launches(read(path)) if os.path.exists(path) else [], done


def places(at):
    """Returns (array, byte) for each lane that took part, in order."""
    return [(array, first + i * step) for array, first, step, count in at for i in range(count)]


def lanes(mask):
    return [lane for lane in range(32) if mask >> lane & 1]


def moved(event, begin):
    """Returns what a load or store of 32 lanes moves, from its addresses; begin is (space, array) -> begin of the array."""
    at = [(array, begin[event["space"], array] + byte) for array, byte in places(event["at"])]
    if event["space"] == "global":
        return {"sectors": len({(array, byte // 32) for array, byte in at}),
                "lines": len({(array, byte // 128) for array, byte in at})}
    words = max(event["bytes"] // 4, 1)
    groups = collections.defaultdict(lambda: collections.defaultdict(set))
    for lane, (array, byte) in zip(lanes(event["lanes"]), at):
        for word in range(byte // 4, byte // 4 + words):
            groups[lane * words // 32][word % 32].add((array, word))
    return {"wavefronts": sum(max(len(bank) for bank in banks.values()) for banks in groups.values()),
            "ideal": len(groups)}
