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
COST = {"memory": 500, "issue": 8, "read": 24, "ldmatrix": 8, "mma": 4, "softmax": 96, "store": 8}
SAYS = ("Order and waits are the trace's; durations are assumed: 500 cycles for a trip to memory, 24 for a read and "
        "its multiply-adds")
SAYS_TENSOR = ("Order and waits are the trace's; durations are assumed: products at the tensor cores' rate, 500 cycles to "
               "memory, 96 a shuffle")


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
            keyed.extend((begin + (event["t"] - begin) % run - 0.5 if i >= run > len(stretch) / 2 else event["t"],
                          event)
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


class Meeting:
    """What some wait for until others have come: a barrier, or a phase of an mbarrier."""
    def __init__(self, line=""):
        self.missing, self.time, self.line, self.warps = 0, 0.0, line, set()

    def come(self, warp, time):
        self.missing -= 1
        self.time = max(self.time, time)
        self.warps.add(warp)


def programs(events, warps):
    """(what each warp does, in order; meetings): what it does is an event, or a Meeting that it waits for.

    Who contributes to which meeting is known from the order of the trace; contributes maps events to meetings."""
    program, contributes, barriers = collections.defaultdict(list), {}, []
    named, phases, over, expected = {}, {}, {}, {}

    def add(table, key, event):
        meeting = table.setdefault(key, Meeting())
        meeting.missing += 1
        contributes[id(event)] = meeting
        return meeting

    for event in events:
        kind, warp = event["event"], event.get("warp")
        if kind == "barrier":
            meeting = Meeting(event["line"])
            meeting.missing = warps
            barriers.append(meeting)
            for each in range(warps):
                program[each] += [("come", meeting), meeting]
        elif kind == "named_barrier":
            barriers.append(named.pop(event["id"], Meeting()))
        elif kind in ("named_barrier_sync", "named_barrier_arrive"):
            program[warp].append(event)
            meeting = add(named, event["value"], event)
            if kind == "named_barrier_sync":
                program[warp].append(meeting)
        elif kind == "mbarrier_phase":
            barrier = tuple(traces.places(event["at"])[0])
            over[barrier] = phases.pop(barrier, Meeting())
        elif kind == "mbarrier_passed":
            barrier = tuple(traces.places(event["at"])[0])
            if barrier in over and event["value"] < 1 << 63:
                program[warp].append(over[barrier])
        elif warp is not None:
            program[warp].append(event)
            if kind == "mbarrier_arrive":
                barrier = tuple(traces.places(event["at"])[0])
                add(phases, barrier, event)
                if event["size"]:
                    expected[warp] = barrier
            elif kind == "tma_load":
                add(phases, expected.get(warp), event)
    return program, contributes, barriers


def spans(launch, block, tile_of):
    """(spans, walls): walls are (time, line, warps) of barriers. tile_of(array, byte) names the tiles of global arrays; for
    the copy engine it gets the box's coordinates in place of the byte."""
    clock, tensor, engine = collections.Counter(), collections.Counter(), 0.0
    loads = collections.defaultdict(list)       # of a warp: when its loads into registers are there
    groups = collections.defaultdict(lambda: {"cp": [0.0], "wgmma": [0.0], "open": 0.0, "products": 0.0})
    written = {}                                # (shared array, byte / 16) -> tile
    last_global, found = {}, []
    warps = max(launch.threads[0] * launch.threads[1] * launch.threads[2] // 32, 1)

    def tile_at(event):
        array, byte = traces.places(event["at"])[0]
        return written.get((array, byte // 16))

    def write(event, place, key="at", bytes_more=0):
        for array, byte in traces.places(event[key]):
            for sixteen in range(byte // 16, (byte + max(bytes_more, 1) - 1) // 16 + 1):
                written[array, sixteen] = place

    def add(warp, what, begin, end, place):
        if end > begin:
            found.append(Span(warp, what, begin, end, place))

    def finished(groups_of_kind, pending):
        """When all but the newest `pending` groups are."""
        return groups_of_kind[max(len(groups_of_kind) - 1 - pending, 0)]

    # A copy is three events: its load and its store, which are the engine's, come first. One of zeros has no load.
    events = ordered(block)
    copies, sources = set(), {}
    for i, event in enumerate(events):
        if event["event"] == "cp_async":
            copies |= {id(events[i - 1]), id(events[i - 2])}
            load = events[i - 2]
            if load["event"] == "load" and load["space"] == "global" and load["line"] == event["line"]:
                sources[id(event)] = tile_of(*traces.places(load["at"])[0])
    feeds_tensor_cores = any(event.get("operation") == "ldmatrix" for event in events)
    program, contributes, barriers = programs(events, warps)
    at = dict.fromkeys(program, 0)
    while True:
        # The warp that is furthest behind goes on.
        able = [warp for warp in at if at[warp] < len(program[warp])
                and not (isinstance(program[warp][at[warp]], Meeting) and
                                                                              program[warp][at[warp]].missing > 0)]
        if not able:
            break
        warp = min(able, key=lambda one: (clock[one], one))
        event = program[warp][at[warp]]
        at[warp] += 1
        now, group = clock[warp], groups[warp]
        if isinstance(event, Meeting):
            clock[warp] = max(now, event.time)
            continue
        if isinstance(event, tuple):
            event[1].come(warp, now)
            continue
        kind, done = event["event"], now
        if kind == "load" and event["space"] == "global":
            if id(event) not in copies:
                last_global[warp] = tile_of(*traces.places(event["at"])[0])
                clock[warp] += COST["issue"]
                loads[warp].append(now + COST["memory"])
                add(warp, "load", now, now + COST["memory"], last_global[warp])
        elif kind == "store" and id(event) not in copies:
            begin = max([now] + loads.pop(warp, []))
            clock[warp] = begin + COST["store"]
            if event["space"] == "shared":
                write(event, last_global.get(warp))
            add(warp, "store" if event["space"] == "shared" else "out", begin, clock[warp],
                last_global.get(warp) if event["space"] == "shared" else None)
        elif kind == "load" and "hopper_tile" not in event.get("line", ""):
            clock[warp] += COST["ldmatrix" if feeds_tensor_cores else "read"]
            group["read"] = tile_at(event)
            add(warp, "read", now, clock[warp], group["read"])
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
            clock[warp] = max(now, finished(group["cp"], event["value"]))
        elif kind == "tma_load":
            begin = max(now, engine)
            engine = begin + event["bytes"] / 32
            done = engine + COST["memory"]
            clock[warp] += COST["issue"]
            place = tile_of(event["at"][0][0], event["from"])
            write(event, place, "shared", event["wavefronts"] * 128)
            add(warp, "copy", begin, done, place)
        elif kind == "tma_store":
            add(warp, "out", now, now + COST["memory"], None)
        elif kind == "wgmma":
            unit = warp % 4
            begin = max(now, tensor[unit])
            tensor[unit] = group["products"] = begin + event["size"] / 2
            add(warp, "product", begin, tensor[unit], tile_at(event))
        elif kind == "wgmma_commit":
            group["wgmma"].append(group["products"])
        elif kind == "wgmma_wait":
            clock[warp] = max(now, finished(group["wgmma"], event["value"]))
        elif kind == "warp" and "mma" in event["operation"] and "wait" not in event["operation"]:
            begin = max(now, tensor[warp % 4])
            clock[warp] = tensor[warp % 4] = begin + COST["mma"]
            add(warp, "product", begin, clock[warp], group.get("read"))
        elif kind == "warp" and "shfl_xor" in event["operation"]:
            begin = max([now] + loads.pop(warp, []))
            clock[warp] = begin + COST["softmax"]
            add(warp, "softmax", begin, clock[warp], None)
        if id(event) in contributes:
            contributes[id(event)].come(warp, done)
    if any(at[warp] < len(program[warp]) for warp in at):
        raise RuntimeError(f"{launch.kernel}: the replay hangs")
    return found, [(meeting.time, meeting.line, meeting.warps) for meeting in barriers]


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
