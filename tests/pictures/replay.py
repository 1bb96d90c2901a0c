"""A block's events on one time axis.

A trace has the order in which each warp did things and what it waited for, but no time: the CPU runs one thread after
another. Here the events are replayed as a multiprocessor would overlap them: every warp has a clock, what is asynchronous
goes on by itself, and a wait ends when what was waited for is there. The durations are round numbers, the same for all
kernels (COST), so a picture shows what overlaps, not how fast a kernel is.
"""
import collections
import dataclasses

import traces

# In cycles. Reading from shared memory has the multiply-adds that follow it included; an exponential is not traced, so
# the softmax is drawn with the shuffles that reduce its rows.
COST = {"memory": 500, "issue": 8, "read": 24, "mma": 16, "softmax": 96, "store": 8}
SAYS = ("Order and waits are the trace's; durations are round numbers: 500 cycles for a trip to memory, 24 for a read and "
        "its multiply-adds")
SAYS_TENSOR = ("Order and waits are the trace's; durations are round numbers: 500 cycles for a trip to memory, 96 for a "
               "shuffle of the softmax")


@dataclasses.dataclass
class Span:
    """What: load or copy (in flight), read, product, softmax, store; place is the tile that it concerns, or None."""
    warp: int
    what: str
    begin: float
    end: float
    place: int | None


MEETINGS = ("warp", "barrier", "named_barrier", "cluster_barrier", "mbarrier_passed")


def ordered(block):
    """A block's events in the order of each warp's program.

    Lanes run one after another from meeting to meeting, and an event has the time of its first lane. So what the first lane
    to run did is in order; what only later lanes did lies later by a multiple of the time that a lane takes."""
    keyed, stretches = [], collections.defaultdict(list)

    def flush(stretch):
        if stretch:
            begin = stretch[0]["t"]
            run = next((i for i, event in enumerate(stretch) if event["t"] != begin + i), len(stretch))
            keyed.extend((begin + (event["t"] - begin) % run - 0.5 if i >= run > len(stretch) / 2 else event["t"], event)
                         for i, event in enumerate(stretch))
            stretch.clear()

    for event in sorted(block.events, key=lambda event: event["t"]):
        if event["event"] in MEETINGS:
            for warp in [event["warp"]] if "warp" in event else list(stretches):
                flush(stretches[warp])
            keyed.append((event["t"], event))
        else:
            stretches[event.get("warp")].append(event)
    for stretch in stretches.values():
        flush(stretch)
    return [event for _, event in sorted(keyed, key=lambda pair: pair[0])]


def spans(launch, block, tile_of):
    """(spans, walls): walls are (time, line, kind) of barriers. tile_of(array, byte) numbers the tiles of global arrays."""
    clock, tensor, engine = collections.Counter(), collections.Counter(), 0.0
    loads = collections.defaultdict(list)       # of a warp: when its loads into registers are there
    groups = collections.defaultdict(lambda: {"cp": [0.0], "wgmma": [0.0], "open": 0.0, "products": 0.0})
    written = {}                                # (shared array, byte) -> tile
    phase, pending, expected = {}, collections.Counter(), {}
    named = collections.defaultdict(dict)
    last_global = {}
    found, walls = [], []
    warps = max(launch.threads[0] * launch.threads[1] * launch.threads[2] // 32, 1)

    def tile_at(event, key="at"):
        array, byte = traces.places(event[key])[0]
        return written.get((array, byte // 16))

    def write(event, place, key="at", bytes_more=0):
        for array, byte in traces.places(event[key]):
            for sixteen in range(byte // 16, (byte + max(bytes_more, 1) - 1) // 16 + 1):
                written[array, sixteen] = place

    def add(warp, what, begin, end, place):
        if end > begin:
            found.append(Span(warp, what, begin, end, place))

    # A copy is three events: its load and its store, which are the engine's, come first. One of zeros has no load.
    events = ordered(block)
    copies, sources = set(), {}
    for i, event in enumerate(events):
        if event["event"] == "cp_async":
            copies |= {id(events[i - 1]), id(events[i - 2])}
            load = events[i - 2]
            if load["event"] == "load" and load["space"] == "global" and load["line"] == event["line"]:
                sources[id(event)] = tile_of(*traces.places(load["at"])[0])
    for event in events:
        kind, warp = event["event"], event.get("warp")
        now, group = clock[warp], groups[warp]
        if kind == "load" and event["space"] == "global":
            place = tile_of(*traces.places(event["at"])[0])
            if id(event) not in copies:
                last_global[warp] = place
                clock[warp] += COST["issue"]
                loads[warp].append(now + COST["memory"])
                add(warp, "load", now, now + COST["memory"], place)
        elif kind == "store" and event["space"] == "shared":
            if id(event) not in copies:
                place = last_global.get(warp)
                write(event, place)
                begin = max([now] + loads.pop(warp, []))
                clock[warp] = begin + COST["store"]
                add(warp, "store", begin, clock[warp], place)
        elif kind == "store":
            begin = max([now] + loads.pop(warp, []))
            clock[warp] = begin + COST["store"]
            add(warp, "out", begin, clock[warp], None)
        elif kind == "load" and "hopper_tile" not in event.get("line", ""):
            clock[warp] += COST["read"]
            add(warp, "read", now, clock[warp], tile_at(event))
            group["read"] = tile_at(event)
        elif kind == "cp_async":
            write(event, sources.get(id(event)))
            clock[warp] += COST["issue"]
            if id(event) in sources:
                group["open"] = max(group["open"], now + COST["memory"])
                add(warp, "copy", now, now + COST["memory"], sources[id(event)])
        elif kind == "cp_async_commit":
            group["cp"].append(max(group["open"], group["cp"][-1]))
            group["open"] = 0.0
        elif kind == "cp_async_wait":
            clock[warp] = max(now, (group["cp"][:-event["value"]] or [0.0])[-1] if event["value"] else group["cp"][-1])
        elif kind == "tma_load":
            begin = max(now, engine)
            engine = begin + event["bytes"] / 32
            done = engine + COST["memory"]
            clock[warp] += COST["issue"]
            place = tile_of(event["at"][0][0], event["from"])
            write(event, place, "shared", event["wavefronts"] * 128)
            add(warp, "copy", begin, done, place)
            barrier = expected.get(warp)
            pending[barrier] = max(pending[barrier], done)
        elif kind == "tma_store":
            add(warp, "out", now, now + COST["memory"], None)
        elif kind == "mbarrier_arrive":
            barrier = tuple(traces.places(event["at"])[0])
            pending[barrier] = max(pending[barrier], now)
            if event["size"]:
                expected[warp] = barrier
        elif kind == "mbarrier_phase":
            barrier = tuple(traces.places(event["at"])[0])
            phase[barrier] = pending.pop(barrier, 0.0)
        elif kind == "mbarrier_passed":
            clock[warp] = max(now, phase.get(tuple(traces.places(event["at"])[0]), 0.0))
        elif kind == "wgmma":
            unit = warp % 4
            begin = max(now, tensor[unit])
            tensor[unit] = begin + event["size"] / 2
            group["products"] = tensor[unit]
            add(warp, "product", begin, tensor[unit], tile_at(event))
        elif kind == "wgmma_commit":
            group["wgmma"].append(group["products"])
        elif kind == "wgmma_wait":
            clock[warp] = max(now, (group["wgmma"][:-event["value"]] or [0.0])[-1] if event["value"] else group["wgmma"][-1])
        elif kind == "warp" and "mma" in event["operation"] and "wait" not in event["operation"]:
            begin = max(now, tensor[warp % 4])
            clock[warp] = tensor[warp % 4] = begin + COST["mma"]
            add(warp, "product", begin, clock[warp], group.get("read"))
        elif kind == "warp" and "shfl_xor" in event["operation"]:
            clock[warp] = max([now] + loads.pop(warp, [])) + COST["softmax"]
            add(warp, "softmax", clock[warp] - COST["softmax"], clock[warp], None)
        elif kind in ("named_barrier_sync", "named_barrier_arrive"):
            named[event["value"]][warp] = (now, kind == "named_barrier_sync")
        elif kind == "named_barrier":
            came = named.pop(event["id"], {})
            at = max((time for time, _ in came.values()), default=0.0)
            for other, (_, waits) in came.items():
                if waits:
                    clock[other] = max(clock[other], at)
            walls.append((at, event.get("line", ""), tuple(came)))
        elif kind == "barrier":
            at = max(clock[warp] for warp in range(warps))
            for warp in range(warps):
                clock[warp] = at
            walls.append((at, event.get("line", ""), None))
    return found, walls


def joined(found, gap=0.0):
    """Spans of one row, of one kind and one tile, that touch or overlap, as one."""
    last, rows = {}, []
    for span in sorted(found, key=lambda span: span.begin):
        before = last.get((span.what, span.place))
        if before and span.begin <= before.end + gap:
            before.end = max(before.end, span.end)
        else:
            last[span.what, span.place] = dataclasses.replace(span)
            rows.append(last[span.what, span.place])
    return rows
