"""What a trace shows, drawn: requests, banks, owners, addresses over time, phases between barriers, traffic, time.

Each function draws at (x, y) of a picture and returns the y below what it drew. Numbers are counted from the events and
compared with what the checker counted (traces.moved, counters); a difference ends the run.
"""
import collections
import functools
import pathlib
import sys

import svg

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/tools"))
import replay  # noqa: E402  (reads traces)
import traces  # noqa: E402


@functools.cache
def traced(step, kernel, sizes="", block=None, warp=None):
    """The launches of one kernel of a step, from build/check; one worker, so that what blocks draw does not vary."""
    program = next(ROOT.glob(f"build/check/{step}_*[a-z0-9]"))
    command = [str(program), f"--kernel={kernel}", *sizes.split()]
    chosen = {} if block is None else {"SIMT_TRACE_BLOCK": str(block)}
    chosen |= {} if warp is None else {"SIMT_TRACE_WARP": str(warp)}
    launches, done = traces.of(command, SIMT_TRACE_LIMIT="512", SIMT_ORDER="inorder", SIMT_WORKERS="1", **chosen)
    if done.returncode or not launches:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return launches


def accesses(launch, kind="load", array=None, space="global", warp=None, blocks=None):
    """The events of the traced blocks, or of some, that load or store in an array."""
    return [event for block in blocks or launch.blocks for event in block.events
            if event["event"] == kind and event["space"] == space and warp in (None, event["warp"]) and
            array in (None, event["at"][0][0])]


def size(event):
    """The bytes that the lanes of a load or store ask for, together."""
    return event["bytes"] * len(traces.lanes(event["lanes"]))


def volume(*which, **more):
    """The bytes of accesses(...)."""
    return sum(size(event) for event in accesses(*which, **more))


def same(drawn, counted, what):
    if drawn != counted:
        sys.exit(f"{what}: drawn {drawn}, the checker counted {counted}")
    return drawn


def request(picture, y, launch, event, says):
    """The lanes of one request above the sectors that it touches, in their 128-byte lines; to scale: a word is 3 wide."""
    begin = {key: array.begin for key, array in launch.arrays.items()}
    moved = traces.moved(event, begin)
    same((moved["sectors"], moved["lines"]), (event["sectors"], event["lines"]), event["line"])
    words = collections.defaultdict(set)
    for lane, (array, byte) in zip(traces.lanes(event["lanes"]), traces.places(event["at"])):
        first = (begin["global", array] + byte) // 4
        words[lane] = set(range(first, first + max(event["bytes"] // 4, 1)))
    wanted = set().union(*words.values())
    sectors = sorted({word // 8 for word in wanted})
    x0, step = 31, 24
    at, x, line = {}, x0, None
    for sector in sectors:
        if line is not None and sector // 4 != line:
            x += 0 if len(sectors) > 24 else 8
        line = sector // 4
        at[sector] = x
        x += step
    picture.text(16, y + 14, says, "t b")
    y += 30
    bottom = y + 62
    picture.cells("e", [(at[sector] + word * 2.6, bottom, 2.6, 22) for sector in sectors for word in range(8)])
    for i, sector in enumerate(sectors):
        colour = i % 6
        some = {lane: {word for word in mine if word // 8 == sector} for lane, mine in words.items()}
        some = {lane: mine for lane, mine in some.items() if mine}
        picture.cells(f"c{colour}", [(x0 + lane * step, y, 20, 18) for lane, mine in some.items()
                                     if min(mine) == min(words[lane])] +
                      [(round(at[sector] + word % 8 * 2.6, 1), bottom, 2.6, 22) for mine in some.values()
                       for word in mine])
        picture.lines(f"l{colour} r", sorted({(x0 + lane * step + 10, y + 18,
                                               round(at[sector] + (min(mine) + max(mine)) / 2 % 8 * 2.6 + 1.3, 1),
                                               bottom)
                                              for lane, mine in some.items()}))
    for lane in words:
        picture.text(x0 + lane * step + 10, y + 13, lane, "in s", "middle")
    picture.lines("ow", [(min(xs), bottom + 27, max(xs) + 20.8, bottom + 27) for xs in (
        [at[sector] for sector in sectors if sector // 4 == line] for line in {sector // 4 for sector in sectors})])
    bytes_wanted = 4 * len(wanted)
    noun = [f"{n} {word}{'s' * (n != 1)}" for n, word in ((moved["sectors"], "sector"), (moved["lines"], "line"))]
    picture.text(x0, bottom + 46,
                 f"{noun[0]} in {noun[1]}: {32 * moved['sectors']} bytes move, {bytes_wanted} of them wanted"
                 + (" (one word, handed to every lane)" if len(wanted) == 1 else ""))
    return bottom + 60


def requests(picture, *some):
    """Requests (launch, event, says) below each other from the top, with their legend."""
    y = 40
    for launch, event, says in some:
        y = request(picture, y, launch, event, says)
    return request_legend(picture, y + 12)


def request_legend(picture, y):
    picture.text(31, y, "a lane has the colour of its sector; six colours take turns", "m")
    picture.cells("e", [(455, y - 10, 12, 12)])
    picture.text(472, y, "words that come along", "m")
    picture.lines("ow", [(632, y - 4, 657, y - 4)])
    picture.text(663, y, "a line of 128 bytes", "m")
    return y + 12


def banks(picture, x, y, words, says, counted, cell=12.4, width=1):
    """What 32 lanes read or write: one row a wavefront, one column a bank, in each cell the lane that is first to want it.

    words is the first word of shared memory of each lane; counted is the number of wavefronts by traces.moved."""
    rows = []
    per_pass = 32 // width
    for first in range(0, len(words), per_pass):
        columns = collections.defaultdict(dict)
        for lane in range(first, min(first + per_pass, len(words))):
            for word in range(words[lane], words[lane] + width):
                columns[word % 32].setdefault(word, []).append(lane)
        for i in range(max(len(column) for column in columns.values())):
            rows.append({bank: list(column.values())[i] for bank, column in columns.items() if len(column) > i})
    same(len(rows), counted, says)
    picture.text(x, y + 12, says, "t b")
    y += 20
    for i, row in enumerate(rows):
        top = y + i * 16
        picture.cells("e", [(x + bank * cell, top, cell - 1, 14) for bank in range(32)])
        picture.cells(f"c{i % 6}", [(x + bank * cell, top, cell - 1, 14) for bank in row])
        if cell > 16:
            for bank, some in row.items():
                picture.text(x + bank * cell + cell / 2 - 0.5, top + 11, some[0], "in s", "middle")
    y += len(rows) * 16
    picture.text(x, y + 12, f"{len(rows)} wavefront{'s' * (len(rows) != 1)}", "m")
    return y + 24


def wavefronts(launch, event, words=None):
    """(first word of each lane, wavefronts) of a request to shared memory; words maps the lanes' words, to ask what if."""
    array = launch.arrays["shared", event["at"][0][0]]
    lanes = [(array.begin + byte) // 4 for _, byte in traces.places(event["at"])]
    base = array.begin // 4
    lanes = [base + words(lane, word - base) for lane, word in enumerate(lanes)] if words else lanes
    moved = traces.moved({**event, "at": [["a", 4 * word, 0, 1] for word in lanes]}, {("shared", "a"): 0})["wavefronts"]
    if not words:
        same(moved, event["wavefronts"], event["line"])
    return lanes, moved


def owners(picture, x, y, rows, columns, cell, who, says, kinds, under=""):
    """A map of a matrix or a part of it: who is (row, column) -> index of kinds; what has none is grey."""
    if says:
        picture.text(x, y + 12, says, "t b")
        y += 20
    picture.cells("e", [(x, y, columns * cell, rows * cell)])
    cells = collections.defaultdict(list)
    for (row, column), kind in who.items():
        if row < rows and column < columns:
            cells[kind].append((x + column * cell, y + row * cell, cell, cell))
    for kind in sorted(cells):
        picture.cells(kinds[kind % len(kinds)], cells[kind])
    y += rows * cell
    for line in under.split("\n") if under else []:
        picture.text(x, y + 16, line, "m")
        y += 16
    return y + 14


def times(number):
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{svg.short(number)} times")


def coordinates(launch, array, byte):
    """(row, column) of an element of an array whose last dimension is its columns."""
    columns = launch.arrays["global", array].shape[-1]
    return divmod(byte // launch.arrays["global", array].element_bytes, columns)


def touched(launch, event, lane_wanted=None):
    """The (row, column) that each lane of a global load or store touches: (lane, row, column)."""
    step = launch.arrays["global", event["at"][0][0]].element_bytes
    for lane, (array, byte) in zip(traces.lanes(event["lanes"]), traces.places(event["at"])):
        if lane_wanted in (None, lane):
            for more in range(0, event["bytes"], step):
                yield (lane, *coordinates(launch, array, byte + more))


def elements(launch, kind, array, lane=None, **which):
    """The (row, column) of an array that some loads or stores touch."""
    return {(row, column) for event in accesses(launch, kind, array, **which)
            for _, row, column in touched(launch, event, lane)}


def sweeps(picture, x, y, width, height, launch, row, says, columns):
    """Columns of one row, from top to bottom, over time: when which was loaded and stored, by the k-th request of any warp."""
    steps, turn, requests = collections.defaultdict(set), collections.Counter(), 0
    for block in launch.blocks:
        for event in sorted(block.events, key=lambda event: event["t"]):
            if event["event"] in ("load", "store") and event["space"] == "global":
                some = {(event["event"], column) for _, r, column in touched(launch, event) if r == row}
                if some:
                    steps[turn[event["warp"]]] |= some
                    turn[event["warp"]] += 1
                    requests += 1
    picture.text(x, y + 12, says, "t b")
    y += 22
    for kind, colour in (("load", "c0"), ("store", "c1")):
        picture.cells("e", [(x, y, width, height)])
        cells = []
        for i, some in steps.items():
            mine = {column for k, column in some if k == kind}
            runs = sorted(column for column in mine if column - 1 not in mine)
            ends = sorted(column + 1 for column in mine if column + 1 not in mine)
            cells += [(round(x + i * width / len(steps), 1), round(y + begin * height / columns, 1),
                       max(round(width / len(steps), 1), 2.5),
                       max(round((end - begin) * height / columns, 1), 2.5)) for begin, end in zip(runs, ends)]
        picture.cells(colour, cells)
        y += height + 4
    loads = sum(k == "load" for some in steps.values() for k, _ in some)
    picture.text(x, y + 12, f"{requests} requests; each number is loaded {times(loads / columns)}", "m")
    return y + 26


PLACES = [f"c{i}" for i in range(6)]
NAMED = {"Q": "c4", "K, V": "c0", "K": "c0", "V": "c2", "O": "c1", "m, l": "c2", "Q, dO": "c4", "LSE, D": "c2", "dQ": "c1",
         "dK": "c1", "dV": "c1"}
ROWS = {"load": "loads on their way", "copy": "copies on their way", "store": "stores to shared",
        "read": "reads, products",
        "product": "tensor cores", "softmax": "softmax", "out": "results out"}


def axis(picture, y, launch, block, tile_of, says, rows, end=None, names=None):
    """The block on a time axis (replay.py): rows are (warp, what it does), None for all warps; coloured by tile, barriers as walls."""
    found, walls = replay.spans(launch, block, tile_of)
    end = end or max(span.end for span in found)
    found = [span for span in found if span.begin < end]
    x0, x1 = 150, svg.WIDTH - 16
    scale = (x1 - x0) / end
    picture.text(16, y + 12, says, "t b")
    y += 20
    top = y
    for warp, what in rows:
        some = replay.joined([span for span in found if (warp is None or span.warp == warp) and span.what == what],
                             gap=COALESCE / scale)
        if not some:
            continue
        if what == "read":  # Q and the weights, beside a tile: what is being multiplied is the tile
            for before, span in zip([None] + some, some):
                span.place = before.place if before and span.place not in tiles_of(found) else span.place
            some = replay.joined(some, gap=COALESCE / scale)
        picture.text(x0 - 8, y + 13, (names or {}).get((warp, what), (names or {}).get(what, ROWS[what])), "m", "end")
        picture.cells("e", [(x0, y, x1 - x0, 17)])
        tracks = []
        for span in some:
            track = next((i for i, free in enumerate(tracks) if free <= span.begin + 0.01), len(tracks))
            tracks[track:track + 1] = [span.end]
            span.track = track
        height = 17 / max(len(tracks), 1)
        by_colour = collections.defaultdict(list)
        for span in some:
            by_colour[colour_of(span.place)].append(
                (round(x0 + span.begin * scale, 1), round(y + span.track * height, 1),
                 max(round((min(span.end, end) - span.begin) * scale, 1), 0.8), round(height - (len(tracks) > 1), 1)))
        for colour, cells in sorted(by_colour.items()):
            picture.cells(colour, cells)
        for span in some:
            wide = (min(span.end, end) - span.begin) * scale
            if span.place is not None and height > 12 and wide > 7.5 * len(str(span.place)) + 4:
                picture.text(round(x0 + (span.begin + min(span.end, end)) / 2 * scale, 1), y + 13, span.place, "in s b",
                             "middle")
        y += 20
    inside = [time for time, _, who in walls if time <= end and {warp for warp, _ in rows} & who]
    picture.lines("w", sorted({(round(x0 + time * scale, 1), top - 2, round(x0 + time * scale, 1), y)
                               for time in inside}))
    return y + 8


COALESCE = 0.6  # of a pixel


def colour_of(place):
    return "c7" if place is None else NAMED.get(place) or PLACES[int(str(place).lstrip("KV")) % 6]


def tiles_of(found):
    """The places of what was copied or loaded of K, V, A and B: numbers, or their names."""
    return {span.place for span in found if isinstance(span.place, int) or str(span.place)[:1] in "KV"}


def phases(picture, y, launch, block, arrays, count, names=None, first=0):
    """Arrays (rows) against the stretches between barriers (columns): written, read, or both; below each barrier what it keeps apart."""
    events = sorted(block.events, key=lambda event: event["t"])
    last, done = {}, [collections.defaultdict(set)]
    barriers = []
    origin = {}
    for event in events:
        if event["event"] == "barrier":
            barriers.append(event["line"])
            done.append(collections.defaultdict(set))
        elif event["event"] == "load" and event["space"] == "global":
            last[event["warp"], event["line"]] = event["at"][0][0]
        elif event["event"] in ("load", "store") and event["space"] == "shared":
            for array, byte in traces.places(event["at"]):
                name = array
                if array == "dynamic":
                    if event["event"] == "store" and (event["warp"], event["line"]) in last:
                        origin[byte] = last[event["warp"], event["line"]] + " tile"
                    name = origin.get(byte, array)
                done[-1][name].add("R" if event["event"] == "load" else "W")
    shown = done[first:first + count]
    found = arrays or sorted({name for phase in shown for name in phase})
    x0, width = 120, (svg.WIDTH - 136) / len(shown)
    for i, name in enumerate(found):
        top = y + i * 30
        picture.text(x0 - 10, top + 17, (names or {}).get(name, name), "t k", "end")
        for j, phase in enumerate(shown):
            what = "".join(sorted(phase[name], reverse=True))
            kind = {"W": "c1", "R": "c0", "WR": "c2"}.get(what, "e")
            picture.cells(kind, [(x0 + j * width + 4, top, width - 8, 25)])
            if what:
                word = {"W": "written", "R": "read", "WR": "own part"}[what]
                picture.text(x0 + (j + 0.5) * width, top + 17, word if width > 62 else what[0], "in s b", "middle")
    bottom = y + len(found) * 30
    picture.lines("w", [(x0 + j * width, y - 6, x0 + j * width, bottom + 4) for j in range(1, len(shown))])
    for j in range(1, len(shown)):
        line = barriers[first + j - 1].rsplit(":", 1)[1]
        picture.text(x0 + j * width, bottom + 18, f"line {line}", "m s", "middle")
    return bottom + 28, found, shown, [barrier.rsplit(":", 1)[1] for barrier in barriers[first:first + count - 1]]


def traffic(launches):
    """Bytes of global memory that each array's loads and stores move, of all blocks of some launches: {(array, kind): bytes}."""
    found = collections.Counter()
    for launch in launches:
        total = collections.Counter()
        for block in launch.blocks:
            for event in block.events:
                if event["event"] in ("load", "store") and event.get("space") == "global":
                    array = event["at"][0][0]
                    found[array, event["event"]] += size(event)
                    total[event["event"]] += size(event)
                elif event["event"] in ("tma_load", "tma_store"):
                    found[event["at"][0][0], event["event"][4:]] += event["bytes"]
                    total[event["event"][4:]] += event["bytes"]
        for kind in ("load", "store"):
            same(total[kind], launch.counters[f"global_{kind}_bytes"], f"{launch.kernel}, bytes of {kind}s")
    return found


def stacked(picture, y, bars, kinds, unit="bytes", label_width=190, scale=None):
    """Bars one above the other, each made of parts: bars is [(name, {part: number})], kinds is {part: colour}."""
    scale = (svg.WIDTH - label_width - 150) / (scale or max(sum(parts.values()) for _, parts in bars))
    for name, parts in bars:
        picture.text(label_width - 8, y + 16, name, "t k", "end")
        x = label_width
        for part, colour in kinds.items():
            if parts.get(part):
                picture.cells(colour, [(x, y, round(parts[part] * scale, 1), 22)])
                x = round(x + parts[part] * scale, 1)
        picture.text(x + 6, y + 16, f"{sum(parts.values()):,} {unit}", "m")
        y += 28
    return y + 4


def bytes_moved(picture, y, step, kernels, sizes):
    """What kernels of a step load from global memory and store there, as the checker counts it: a bar each."""
    bars = [(kernel, {kind: sum(launch.counters[f"global_{kind}_bytes"] for launch in traced(step, kernel, sizes, 0, 0))
                      for kind in ("load", "store")}) for kernel in kernels]
    y = stacked(picture, y, bars, {"load": "c0", "store": "c1"})
    picture.legend(190, y + 12, [("c0", "loaded"), ("c1", "stored")])
    return y + 24
