"""Step 04: what depends on what, who has which keys, and what a tile saves."""
import collections

import maps
import svg
import traces
import views

# Speeds that the lesson's table of measurements compares (report.py).
RATIOS = [("flash_v1_async", "torch_efficient"), ("flash_v1_async", "flash_v1")]

SMALL = "--heads 1 --seq 64 --head-dim 32"
ARRAYS = {"Q": "c4", "K and V": "c0", "O": "c1", "m, l, LSE": "c2", "scores": "c3"}


def by_array(launches, workspace="m, l, LSE"):
    """Bytes of global memory, loads and stores, that concern each of ARRAYS."""
    names = {"Q": "Q", "K": "K and V", "V": "K and V", "O": "O", "LSE": "m, l, LSE", "workspace": workspace}
    found = collections.Counter()
    for (array, _), count in views.traffic(launches).items():
        found[names[array]] += count
    return found


def keys_of(launch, query, array="K"):
    """Of one query: [(order, key, block, warp)] as its keys are loaded; the query is the row of Q that a warp loaded last."""
    found, now = [], {}
    for block in launch.blocks:
        for event in sorted(block.events, key=lambda event: event["t"]):
            if event["event"] == "load" and event["space"] == "global" and event["at"][0][0] in ("Q", array):
                row = next(views.touched(launch, event))[1]
                who = block.number, event["warp"]
                if event["at"][0][0] == "Q":
                    now[who] = row
                elif now.get(who) == query and (row, who) not in [(key, other) for key, *other in found]:
                    found.append((row, who))
    return found


def steps(launch, block, Br, Bc, one_query_tile):
    """The tiles (i, j) that a block goes through, in order, with the bytes of global memory that each moves, by array.

    Warps go on to the next tile at different times, so each has an i and a j of its own; all of them load a part of Q and K."""
    found, now, waiting = {}, collections.defaultdict(lambda: [None,
                                                               None]), collections.defaultdict(collections.Counter)
    for event in sorted(block.events, key=lambda event: event["t"]):
        if event["event"] not in ("load", "store") or event["space"] != "global":
            continue
        array, warp = event["at"][0][0], event["warp"]
        if event["event"] == "load" and array in "QK":
            row = next(views.touched(launch, event))[1]
            if array == "K" and not one_query_tile and row // Bc != now[warp][1]:
                now[warp][0] = None
            now[warp][array == "K"] = row // (Bc if array == "K" else Br)
        waiting[warp][array, event["event"]] += views.size(event)
        if None not in now[warp]:
            found.setdefault(tuple(now[warp]), collections.Counter()).update(waiting.pop(warp, {}))
    return list(found.items())


def picture_05_map():
    return maps.opening("05", "flash_v2", "--heads 1 --seq 64 --head-dim 32", "O", ("Q", "K", "V"))


def walk(picture, kernels):
    """Tiles of scores, queries down and keys across, moment by moment: which one a block has, and what moves for it. kernels is
    [(step, kernel, whether a block has one tile of queries)]."""
    sides = []
    for step, kernel, one in kernels:
        launch = views.traced(step, kernel, SMALL)[-1]
        blocks = [steps(launch, block, 16, 16, one) for block in launch.blocks]
        moments = [[some[at] for some in blocks] for at in range(len(blocks[0]))]
        views.same(sum(sum(moved.values()) for moment in moments for _, moved in moment),
                   launch.counters["global_load_bytes"] + launch.counters["global_store_bytes"], kernel)
        sides.append((kernel, moments))
    cell, top = 52, 110
    count = max(len(moments) for _, moments in sides)
    for side, (kernel, moments) in enumerate(sides):
        x = 70 + side * 410
        blocks = len(moments[0])
        picture.text(x - 54, 58, f"{kernel}: {blocks} block{'s' * (blocks > 1)}", "t b")
        picture.text(x, 78, "tiles of keys: K, V", "m s")
        picture.cells("e", [(x, top, 4 * cell, 4 * cell)])
        picture.grid(x, top, 4, 4, cell, cell)
        picture.text(x + 4 * cell + 38, 100, "O", "m s", "middle")
    for number in range(count):
        picture.frame(number, count, 0.9 * count, min(9, count - 1))
        for side, (kernel, moments) in enumerate(sides):
            x = 70 + side * 410
            shown = moments[:number + 1]
            done = {place for moment in shown for place, _ in moment}
            now = moments[number] if number < len(moments) else []
            total, with_O = collections.Counter(), collections.Counter()
            for moment in shown:
                for (i, _), moved in moment:
                    total.update(moved)
                    with_O[i] += sum(count for (array, _), count in moved.items() if array == "O") // (16 * 32 * 4)
            picture.cells("c7", [(x + j * cell + 2, top + i * cell + 2, cell - 4, cell - 4) for i, j in done], 0.5)
            picture.cells("c0", [(x + j * cell + 2, top + i * cell + 2, cell - 4, cell - 4) for (i, j), _ in now])
            picture.cells("c0", [(x + j * cell + 4, top - 22, cell - 8, 14) for (_, j), moved in now
                                 if any(array == "K" for array, _ in moved)])
            picture.cells("c4", [(x - 22, top + i * cell + 4, 14, cell - 8) for (i, _), moved in now
                                 if any(array == "Q" for array, _ in moved)])
            picture.cells("c1", [(x + 4 * cell + 12, top + i * cell + 4, 52, cell - 8) for (i, _), moved in now
                                 if any(array == "O" for array, _ in moved)])
            for i in range(4):
                on_colour = any(at == i and "O" in {array for array, _ in moved} for (at, _), moved in now)
                picture.text(x + 4 * cell + 38, top + i * cell + 31, with_O[i] or "", "in b" if on_colour else "t b", "middle")
            picture.text(x - 54, top + 4 * cell + 28,
                         f"{sum(total.values()):,} bytes moved" + (", done" if number >= len(moments) - 1 else ""),
                         "t h")
            parts = [f"{name} {sum(count for (array, _), count in total.items() if array in arrays):,}"
                     for name, arrays in (("Q", "Q"), ("K, V", "KV"), ("O", "O"), ("m, l, LSE", ("workspace", "LSE")))]
            picture.text(x - 54, top + 4 * cell + 48, " · ".join(parts), "m s")
        picture.done()
    picture.legend(16, top + 4 * cell + 80, [("c0", "tile of scores, K and V loaded"), ("c4", "Q loaded"),
                                             ("c1", "O loaded or stored; the number: how often"), ("c7", "done")])
    return top + 4 * cell + 102


def picture_04_map():
    return maps.opening("04", "flash_v1", "--heads 2 --seq 64 --head-dim 32", "O", ("Q", "K", "V"))


def picture_04_dependences():
    picture = svg.Picture("Three cycles, and arrows between them that point one way only",
                          "m, l and O each depend on themselves, one key earlier; l needs m, O needs l; the rungs cut at different places.")
    boxes = {"m": (80, "S3, S6, S12", "maximum"), "l": (330, "S4, S7, S13", "sum"),
             "O": (580, "S8, S10, S11", "output")}
    for name, (x, statements, what) in boxes.items():
        colour = {"m": "c0", "l": "c2", "O": "c1"}[name]
        picture.cells(colour, [(x, 110, 150, 56)])
        picture.text(x + 75, 134, f"{name}: {what}", "in b", "middle")
        picture.text(x + 75, 153, statements, "in s", "middle")
        picture.path("ow", f"M{x + 115} 110C{x + 135} 60 {x + 15} 60 {x + 33} 106")
        picture.arrow("ow", x + 30, 98, x + 34, 109)
        picture.text(x + 75, 62, "carried by j: one key later", "m s", "middle")
    picture.arrow("ow", 230, 138, 328, 138)
    picture.arrow("ow", 480, 138, 578, 138)
    for x in (279, 529):
        picture.lines("w", [(x, 92, x, 186)])
        picture.text(x, 204, "cut here", "t b", "middle")
    rows = [("row_per_thread, row_parallel", "no cut: j in order, queries (and elements) in parallel"),
            ("standard, key_parallel_atomic",
             "both cuts: all of m, then all of l, then all of O; j in parallel in each"),
            ("key_parallel_ordered", "no cut: chunks of j in parallel, merged in turn"),
            ("key_parallel_block", "no cut: the merge operator makes the order unimportant"),
            ("flash_v1", "no cut: i and j change places; j in order outside, queries inside")]
    for i, (name, what) in enumerate(rows):
        picture.text(16, 240 + i * 22, name, "t k")
        picture.text(270, 240 + i * 22, what, "m")
    return picture


def picture_04_statements():
    picture = svg.Picture("The dependences of S1 to S13: three cycles, one per array",
                          "m, l and O are each a cycle of three statements; arrows between the cycles go from S5 to m, from m to l and from both to O.")
    boxes = {"S1": (285, 62, "q_i = Q[i]"), "S2": (445, 62, "k_j = K[j]"), "S5": (365, 122, "S_ij"), "S9": (688, 122, "v_jc = V[j, c]"),
             "S3": (90, 192, "m_i = m[i]"), "S6": (90, 262, "m_ij"), "S12": (90, 332, "m[i] = m_ij"),
             "S4": (345, 192, "l_i = l[i]"), "S7": (345, 262, "l_ij"), "S13": (345, 332, "l[i] = l_ij"),
             "S8": (600, 192, "o_ic = O[i, c]"), "S10": (600, 262, "o_ijc"), "S11": (600, 332, "O[i, c] = o_ijc")}
    parts = {"m": ("S3", "S6", "S12"), "l": ("S4", "S7", "S13"), "O": ("S8", "S10", "S11")}
    for (name, (first, *_)), colour in zip(parts.items(), ("c0", "c2", "c1")):
        x, y, _ = boxes[first]
        picture.cells(colour, [(x - 34, y - 12, 204, 216)], 0.18)
        picture.text(x + 162, y + 195, f"component {name}", "t b", "end")
        picture.path("ow", f"M{x} {y + 158}C{x - 40} {y + 130} {x - 40} {y + 50} {x - 8} {y + 22}", ' stroke-dasharray="4 3"')
        picture.arrow("ow", x - 12, y + 25, x - 1, y + 18)
    for names in parts.values():
        for one, other in zip(names, names[1:]):
            x, y, _ = boxes[one]
            picture.arrow("ow", x + 65, y + 34, x + 65, boxes[other][1] - 2)
    for one, other in (("S1", "S5"), ("S2", "S5"), ("S9", "S10"), ("S5", "S6"), ("S5", "S7"), ("S5", "S10"), ("S3", "S7"), ("S6", "S7"),
                       ("S3", "S10"), ("S6", "S10"), ("S4", "S10"), ("S7", "S10")):
        (x, y, _), (to, below, _) = boxes[one], boxes[other]
        if y == below:
            picture.arrow("ow", x + 130, y + 12 + 10 * (to - x > 300), to - 2, y + 12 + 10 * (to - x > 300))
        else:
            picture.arrow("ow", x + 65 + 40 * (to > x) - 40 * (to < x), y + 34, to + 65 - 40 * (to > x) + 40 * (to < x), below - 2)
    for name, (x, y, what) in boxes.items():
        colour = next((kind for kind, names in zip(("c0", "c2", "c1"), parts.values()) if name in names), "c7")
        picture.cells(colour, [(x, y, 130, 34)])
        picture.text(x + 65, y + 22, f"{name}: {what}", "in s b", "middle")
    picture.text(16, 428, "An arrow: what one statement writes another reads. Dashed: by the next j (distance 1). Grey: read only.", "m")
    return picture


def picture_04_row_per_thread():
    launch, = views.traced("04", "row_per_thread", SMALL)
    picture = svg.Picture("row_per_thread: 32 lanes, 32 queries",
                          "K is one word for all lanes; O is in 32 different rows, 32 sectors.")
    y = views.requests(picture, (launch, views.accesses(launch, "load", "K", warp=0)[0],
                                 "A load of K: every lane wants the same element of the same key"),
                       (launch, views.accesses(launch, "load", "O", warp=0)[0], "A load of O: each lane its own query")) + 16
    loads, stores = (views.volume(launch, kind, "O") for kind in ("load", "store"))
    picture.text(31, y,
                 f"O is loaded {loads // launch.arrays['global', 'O'].bytes} times and stored {stores // launch.arrays['global', 'O'].bytes} times: "
                 "once for each of 64 keys, and once as 0.")
    return picture


def deal(picture, y, says, keys, count, name):
    """One row of keys, each in the colour of the warp that has it."""
    workers = list(dict.fromkeys(who for _, who in sorted(keys)))
    picture.text(16, y + 12, says, "t b")
    y += 22
    width = 798 / count
    for number, worker in enumerate(workers):
        picture.cells(views.PLACES[number % 6], [(round(16 + key * width, 2), y, round(width - (width > 4), 2), 22)
                                                 for key, who in keys if who == worker])
    if width > 11:
        for key, who in keys:
            picture.text(round(16 + (key + 0.5) * width, 1), y + 15, workers.index(who), "in s", "middle")
    picture.text(16, y + 38, f"{len(workers)} {name}; each key once: {len(keys)} keys", "m")
    views.same(sorted(key for key, _ in keys), list(range(count)), says)
    return y + 52, workers


def picture_04_key_parallel_atomic():
    launches = [launch for launch in views.traced("04", "key_parallel_atomic",
                                                  "--heads 1 --seq-q 4 --seq-kv 128 --head-dim 32")
                                                  if "atomic" in launch.kernel]
    picture = svg.Picture("key_parallel_atomic: three launches, cut between m, l and O",
                          "In each launch the chunks update one array by atomics, in any order.")
    y, _ = deal(picture, 40, "query 0: which warp has which of 128 keys, in each launch", keys_of(launches[0], 0), 128,
                "warps, a chunk of 32 keys each")
    for number, (launch, what) in enumerate(zip(launches,
                                                ("atomicMax into m", "atomicAdd into l", "atomicAdd into O"))):
        lanes = sum(len(traces.lanes(event["lanes"])) for block in launch.blocks for event in block.events
                    if event["event"] == "atomic_update")
        keys = views.volume(launch, "load", "K") // launch.arrays["global", "K"].bytes
        x = 16 + number * 272
        for i in range(4):
            picture.cells(views.PLACES[i], [(x + i * 60, y + 6, 52, 24)])
            picture.arrow("ow", x + i * 60 + 26, y + 31, x + 118, y + 70)
        picture.cells(("c0", "c2", "c1")[number], [(x + 60, y + 72, 116, 28)])
        picture.text(x + 118, y + 90, what, "in s b", "middle")
        picture.text(x, y + 122, f"phase {number}: {lanes} atomics,")
        picture.text(x, y + 138, f"K loaded {keys} times (4 queries)", "m")
        if number:
            picture.lines("w", [(x - 22, y, x - 22, y + 140)])
        views.same(lanes, launch.counters["atomics"], "atomics")
    picture.text(16, y + 166, "A colour above: a warp; below: an array, m, l or O. A thick line: the grid waits, because a launch ends.", "m")
    return picture


def picture_04_walk():
    picture = svg.Picture("flash_v1 walks over the tiles of scores: keys outside, queries inside",
                          "For each tile of keys the block goes through all tiles of queries, and O, m and l move each time.")
    y = walk(picture, [("04", "flash_v1", False)])
    picture.text(364, 140, "The block takes a tile of keys into shared memory,", "m")
    picture.text(364, 158, "then one tile of queries after the other; for each", "m")
    picture.text(364, 176, "it loads what it has of O, adds to it, and stores it.", "m")
    picture.text(16, y, "Not counted: the launch before it that sets O, m and l to their first values.", "m")
    return picture


def picture_04_flash_v1():
    launch = views.traced("04", "flash_v1", "--heads 1 --seq-q 32 --seq-kv 64 --head-dim 32")[-1]
    picture = svg.Picture("flash_v1: shared memory between the barriers",
                          "For each array, in which stretch between barriers it is written and in which it is read.")
    picture.text(16, 54,
                 "One tile of keys with two tiles of queries, and the beginning of the next tile of keys; a thick line is a barrier", "m")
    names = {"K tile": "K_tile", "V tile": "V_tile", "Q tile": "Q_tile", "S_tile": "S_tile", "rescale": "rescale",
             "weight": "weight"}
    y, found, shown, lines = views.phases(picture, 76, launch, launch.blocks[0], list(names), 9, names, 1)
    keeps = {}
    for line, before, after in zip(lines, shown, shown[1:]):
        kept = keeps.setdefault(line, {})
        for name in found:
            if "W" in before[name] and "R" in after[name]:
                kept.setdefault("written before it is read", set()).add(names[name])
            elif "R" in before[name] and "W" in after[name]:
                kept.setdefault("read before it is overwritten", set()).add(names[name])
    y += 6
    for line in sorted(keeps, key=int):
        picture.text(16, y + 10, f"line {line}", "t k")
        picture.text(90, y + 10, "; ".join(f"{', '.join(sorted(some))}: {what}"
                                           for what, some in sorted(keeps[line].items(), reverse=True)), "m")
        y += 18
    picture.text(16, y + 10, "own part", "t k")
    picture.text(90, y + 10, "the first thread of each row reads and writes it alone", "m")
    y += 18
    bytes_used = {name: array.bytes for (space, name), array in launch.arrays.items() if space == "shared"}
    picture.text(16, y + 16,
                 f"At d = 32 the dynamic array (Q_tile, K_tile, V_tile) has {bytes_used['dynamic']:,} bytes, S_tile {bytes_used['S_tile']:,}, "
                 f"rescale and weight {bytes_used['rescale']} each.", "m")
    return picture


def picture_04_flash_v1_large_tiles():
    picture = svg.Picture("flash_v1_large_tiles: traffic against the size of the tiles",
                          "With larger tiles of keys Q and O travel less often; with larger tiles of queries K and V do.")
    sizes = "--heads 1 --seq 128 --head-dim 32"
    bars = []
    for step, kernel, what in (("04", "flash_v1", "FA1"), ("04", "flash_v1_wide_tile", "FA1"),
                               ("04", "flash_v1_large_tiles", "FA1"),
                               ("05", "flash_v2_exchanged", "FA2"), ("05", "flash_v2_rectangles", "FA2"),
                               ("05", "flash_v2_large_tiles", "FA2")):
        launches = views.traced(step, kernel, sizes)
        steps_of = tiles(launches[-1], "K" if what == "FA1" else "Q")
        bars.append((f"{kernel}", by_array(launches), f"{what}, B{'c' if what == 'FA1' else 'r'} = {128 // steps_of}"))
    picture.text(16, 58, "Bytes of global memory, N = 128, d = 32", "t b")
    y = 70
    for name, parts, says in bars:
        below = views.stacked(picture, y, [(name, parts)], ARRAYS, f"bytes   {says}",
                              scale=max(sum(p.values()) for _, p, _ in bars) * 1.35)
        y = below - 4
    picture.legend(190, y + 20, [(colour, name) for name, colour in list(ARRAYS.items())[:4]])
    picture.text(16, y + 46,
                 "FA1 moves Q and O once for each tile of Bc keys, FA2 moves K and V once for each tile of Br queries.", "m")
    return picture


def tiles(launch, array):
    """How many tiles along the keys (FA1, by the trips of Q) or the queries (FA2, by the trips of K) there are."""
    other = {"K": "Q", "Q": "K"}[array]
    loaded = views.volume(launch, "load", other)
    return loaded // launch.arrays["global", other].bytes
