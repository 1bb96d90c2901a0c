"""Step 05: the exchanged loops, rows that belong to warps, keys split over blocks."""
import collections

import svg
import traces
import views
from draw_04 import SMALL, deal, walk

# Speeds that the lesson's table of measurements compares (report.py).
RATIOS = [("flash_v2_base_2", "torch_efficient"), ("split_kv", "flash_v2_base_2"), ("split_kv", "copy"),
          ("backward_vector_adds", "torch_efficient")]

DECODE = "--heads 1 --seq-q 1 --seq-kv 512 --head-dim 64"


def picture_05_cursor():
    picture = svg.Picture("FA1 and FA2 walk over the tiles of scores: who moves what?",
                          "FA1 goes through queries for each tile of keys and moves O each time; in FA2 four blocks go through keys, and O moves once.")
    y = walk(picture, [("04", "flash_v1", False), ("05", "flash_v2_exchanged", True)])
    picture.text(16, y, "Not counted: the launch before flash_v1 that sets O, m and l to their first values.", "m")
    return picture


def picture_05_flash_v2():
    picture = svg.Picture("flash_v2: K transposed, and rows of 17",
                          "How a warp reads K from shared memory and how it stores K there, before and after.")
    y = 40
    for kernel, array in (("flash_v2_exchanged", "dynamic"), ("flash_v2", "K_transposed")):
        launch = views.traced("05", kernel, "--heads 1 --seq 64 --head-dim 64", 0)[-1]
        worst = max(views.accesses(launch, "load", array, "shared", 0), key=lambda event: event["wavefronts"])
        lanes, count = views.wavefronts(launch, worst)
        y = views.banks(picture, 16, y, lanes, f"{kernel}: a read of K, 16 keys for two queries", count, cell=24.5)
    event = views.accesses(launch, "store", array, "shared", 0)[0]
    for words, says in ((None, "flash_v2: a store of K, 32 features of one key, rows of 17"),
                        (lambda lane, word: word // 17 * 16 + word % 17, "the same with rows of 16")):
        lanes, count = views.wavefronts(launch, event, words)
        y = views.banks(picture, 16, y, lanes, says, count, cell=24.5)
    counts = [(kernel, views.traced("05", kernel, SMALL, 0)[-1].counters)
              for kernel in ("flash_v2_exchanged", "flash_v2")]
    picture.text(16, y + 12, "A row is a wavefront, a column a bank; the number is the first lane that wants the word.", "m")
    y += 20
    picture.text(16, y + 12, "Barriers at N = 64: " + ", ".join(f"{counters['barriers']} in {kernel}"
                                                                for kernel, counters in counts))
    return picture


def picture_05_split_kv_naive():
    picture = svg.Picture("split_kv_naive: one query, many keys, several blocks",
                          "Each block attends to a run of keys; a second kernel merges the runs.")
    launches = views.traced("05", "split_kv_naive", "--heads 1 --seq-q 1 --seq-kv 1024 --head-dim 32")
    launch = launches[0]
    keys = sorted({(row, (block.number, 0)) for block in launch.blocks
                   for row, _ in views.elements(launch, "load", "K", blocks=[block])})
    y, workers = deal(picture, 40, "which block has which of 1024 keys", keys, 1024, "blocks, a run of keys each")
    width = 798 / len(workers)
    for i in range(len(workers)):
        x = 16 + i * width + width / 2
        picture.cells(views.PLACES[i % 6], [(x - 44, y + 8, 88, 28)])
        picture.text(x, y + 27, "O, LSE", "in s b", "middle")
        picture.arrow("ow", x, y + 37, 415, y + 90)
    moved = views.traffic([launch])
    picture.cells("e", [(315, y + 92, 200, 28)])
    picture.text(415, y + 111, "merge_runs: O, LSE", "t b", "middle")
    picture.text(16, y + 62, f"{moved['workspace', 'store']:,} bytes", "m")
    picture.text(16, y + 78, "of workspace", "m")
    picture.text(16, y + 146, "flash_v2 would have one block here: it splits queries, and there is one.", "m")
    return picture


def owned(picture, x, kernel, sizes, columns, cell, says=""):
    """The elements of O that warps and one thread store, of the first 128 queries."""
    launch = views.traced("05", kernel, sizes, 0)[-1]
    who = {}
    for event in views.accesses(launch, "store", "O"):
        for lane, row, column in views.touched(launch, event):
            who[row, column] = 6 if event["warp"] == 0 and lane == 5 else event["warp"]
    rows = max(row for row, _ in who) + 1
    mine = [place for place, kind in who.items() if kind == 6]
    kinds = ["c0", "c2", "c3", "c4", "c5", "c6", "c1"]
    views.owners(picture, x, 44, rows, columns, cell, who, says or f"{kernel}: {rows} queries", kinds)
    return x + columns * cell + 20, 64, mine, rows * cell + 64


def scores_owned(launch):
    """Who has which score of the first tile of keys, as in owned(): a thread stores its P, a run of rows at a time, key by key,
    into its warp's slab of shared memory."""
    who = {}
    for warp in range(4):
        stores = [event for event in views.accesses(launch, "store", "dynamic", "shared", warp) if event["bytes"] == 16]
        words = [[byte // 4 for _, byte in traces.places(event["at"])] for event in stores[:len(stores) // 2]]
        slab = min(min(lanes) for lanes in words)
        pitch = words[0][1] - words[0][0]  # lane 1 has the next key
        for lane, word in ((lane, word) for lanes in words for lane, word in enumerate(lanes)):
            for row in range(4):
                key, first = divmod(word - slab, pitch)
                who[16 * warp + first + row, key] = 6 if (warp, lane) == (0, 5) else warp
    return who


def picture_05_flash_v2_rectangles():
    picture = svg.Picture("flash_v2_rectangles: a warp owns whole rows, from S to O",
                          "Four warps with 16 queries each; a thread has 4 rows of S and of O.")
    sizes = "--heads 1 --seq 64 --head-dim 64"
    scores = scores_owned(views.traced("05", "flash_v2_rectangles", sizes, 0)[-1])
    keys = max(key for _, key in scores) + 1
    views.same(len(scores), 64 * keys, "scores of a tile")
    views.owners(picture, 20, 44, 64, keys, 4, scores, f"S: {keys} keys", ["c0", "c2", "c3", "c4", "c5", "c6", "c1"])
    x, y, mine, bottom = owned(picture, 40 + 4 * keys, "flash_v2_rectangles", sizes, 64, 4, "O: 64 queries, 64 features")
    picture.legend(x, y + 16, [("c0", "warp 0"), ("c2", "warp 1"), ("c3", "warp 2"), ("c4", "warp 3")])
    picture.legend(x, y + 40, [("c1", f"thread 5: {list(scores.values()).count(6)} elements of S and {len(mine)} of O")])
    picture.text(x, y + 72, f"both in {len({row for row, _ in mine})} rows", "m")
    y += 100
    picture.text(x, y, "No row crosses a warp, so no barrier waits", "m")
    picture.text(x, y + 16, "for a maximum or a sum.", "m")
    for i, kernel in enumerate(("flash_v2", "flash_v2_rectangles")):
        launch = views.traced("05", kernel, sizes)[-1]
        queries = 64 // launch.grid[0]
        picture.text(x, y + 46 + i * 22,
                     f"{kernel}: {launch.counters['barriers']} barriers in {launch.grid[0]} block{'s' * (launch.grid[0] > 1)} of {queries} queries")
    picture.down_to(bottom)
    return picture


def picture_05_split_kv():
    launch = views.traced("05", "split_kv", DECODE)[0]
    picture = svg.Picture("split_kv: a group of lanes takes a key, a lane four features of it",
                          "K goes straight into registers; neighbouring groups take neighbouring keys.")
    event = views.accesses(launch, "load", "K", warp=0)[0]
    y = views.request(picture, 40, launch, event, f"The first load of K by warp 0: {event['bytes']} bytes a lane") + 4
    who = collections.defaultdict(dict)
    for other in views.accesses(launch, "load", "K", blocks=launch.blocks[:1]):
        for lane, row, column in views.touched(launch, other):
            who[row][column] = (other["warp"], lane)
    rows = sorted(who)[:16]
    picture.text(16, y + 12,
                 "The first keys of block 0: the lane that has each four features; a colour is a group of lanes of a warp", "t b")
    group = len({lane for warp, lane in who[rows[0]].values()})
    for i, row in enumerate(rows):
        top = y + 24 + i * 18
        picture.text(76, top + 13, f"key {row}", "m s", "end")
        for column in range(0, 64, 4):
            warp, lane = who[row][column]
            picture.cells(views.PLACES[(warp * 32 + lane) // group % 6], [(84 + column * 9.6, top, 36, 16)])
            picture.text(84 + column * 9.6 + 18, top + 12, lane, "in s", "middle")
        picture.text(712, top + 13, f"warp {who[row][0][0]}", "m s")
    y += 24 + len(rows) * 18
    picture.text(16, y + 18,
                 f"{group} lanes a key, {32 // group} keys of a warp at a time; block 0 has {len(who)} of 512 keys.")
    return picture


BACKWARD = "--heads 1 --seq 64 --head-dim 32"


def picture_05_backward_products():
    picture = svg.Picture("Five products of a pair of tiles, and where each result goes",
                          "From the tiles of Q, dO, K and V come S and dP; from these P and dS; from these the shares of dV, dK and dQ.")
    boxes = {"Q, LSE": (40, 58, "c4"), "K": (200, 58, "c0"), "dO, D": (440, 58, "c4"), "V": (600, 58, "c0"),
             "S = scale · Q·Kᵀ": (120, 138, "c3"), "dP = dO·Vᵀ": (520, 138, "c3"),
             "P = e^(S − LSE)": (120, 218, "c3"), "dS = P∘(dP − D)": (520, 218, "c3"),
             "dV += Pᵀ·dO": (40, 308, "c0"), "dK += scale · dSᵀ·Q": (340, 308, "c0"), "dQ += scale · dS·K": (620, 308, "c1")}
    wide, high = 170, 34
    arrows = [("Q, LSE", "S = scale · Q·Kᵀ"), ("K", "S = scale · Q·Kᵀ"), ("dO, D", "dP = dO·Vᵀ"), ("V", "dP = dO·Vᵀ"),
              ("S = scale · Q·Kᵀ", "P = e^(S − LSE)"), ("dP = dO·Vᵀ", "dS = P∘(dP − D)"), ("P = e^(S − LSE)", "dS = P∘(dP − D)"),
              ("P = e^(S − LSE)", "dV += Pᵀ·dO"), ("dS = P∘(dP − D)", "dK += scale · dSᵀ·Q"), ("dS = P∘(dP − D)", "dQ += scale · dS·K")]
    width = {name: 140 if y == 58 else wide for name, (_, y, _) in boxes.items()}
    for one, other in arrows:
        (x, y, _), (to, below, _) = boxes[one], boxes[other]
        if y == below:
            picture.arrow("ow", x + width[one] + 2, y + high / 2, to - 3, y + high / 2)
        else:
            middle, end = x + width[one] / 2, to + width[other] / 2
            aside = max(-50, min(50, (middle - end) / 3))
            picture.arrow("ow", middle - aside / 2, y + high + 2, end + aside, below - 3)
    for name, (x, y, kind) in boxes.items():
        picture.cells(kind, [(x, y, width[name], high)])
        picture.text(x + width[name] / 2, y + 22, name, "in b", "middle")
    picture.legend(16, 378, [("c4", "tile of queries, passes by"), ("c0", "tile of keys, stays with its block"), ("c3", "made again for each pair, never stored")])
    picture.legend(16, 400, [("c1", "its sum goes over the keys: blocks add it in memory, or a second pass makes it")])
    return picture


def blocks_at(launch, arrays, events=("load", "atomic_update")):
    """The tiles of 16 rows of some arrays that each block touches: {block: {tile}}."""
    found = collections.defaultdict(set)
    for block in launch.blocks:
        for event in block.events:
            if event["event"] not in events or "at" not in event or event.get("space", "global") != "global":
                continue
            if event["at"][0][0] in arrays:
                size = event.get("bytes", event.get("size"))
                for array, byte in traces.places(event["at"]):
                    found[block.number].add(views.coordinates(launch, array, byte)[0] // 16)
    return found


def tile_grid(picture, x, y, owners, says):
    """The tiles of scores, coloured by the block that makes them: owners is {(i, j): block}."""
    cell = 44
    picture.text(x, y, says, "t b")
    picture.cells("e", [(x, y + 30, 4 * cell, 4 * cell)])
    for (i, j), block in owners.items():
        picture.cells(views.PLACES[block % 6], [(x + j * cell + 2, y + 30 + i * cell + 2, cell - 4, cell - 4)])
        picture.text(x + j * cell + cell / 2, y + 30 + i * cell + 27, block, "in s b", "middle")
    picture.text(x, y + 22, "a column is a tile of keys, a row a tile of queries", "m s")
    return y + 30 + 4 * cell


def picture_05_backward_recompute():
    picture = svg.Picture("backward_recompute: a block per tile of keys, and where dQ is added",
                          "Four tiles of keys and of queries; the number is the block.")
    launch = views.traced("05", "backward_recompute", BACKWARD)[-1]
    keys, queries = blocks_at(launch, ("K",)), blocks_at(launch, ("Q",))
    adds = blocks_at(launch, ("dQ",), ("atomic_update",))
    y = tile_grid(picture, 40, 54, {(i, j): block for block in keys for j in keys[block] for i in queries[block]}, "tiles of scores")
    for i in range(4):
        count = sum(i in tiles for tiles in adds.values())
        picture.text(230, 54 + 30 + i * 44 + 27, f"dQ, tile {i}: {count} blocks add, in any order", "t")
    picture.text(40, y + 22, "down a column: dK and dV of a tile, summed by one block in registers", "m")
    return picture


def picture_05_backward_two_pass():
    picture = svg.Picture("backward_two_pass: both orders of loops, one after the other",
                          "First a block per tile of keys, then a block per tile of queries; the number is the block.")
    first, second = views.traced("05", "backward_two_pass", BACKWARD)[-2:]
    x = 40
    for launch, says in ((first, "first pass: dK and dV, down"), (second, "second pass: dQ, across")):
        keys, queries = blocks_at(launch, ("K",)), blocks_at(launch, ("Q",))
        y = tile_grid(picture, x, 54, {(i, j): block for block in keys for j in keys[block] for i in queries[block]}, says)
        x += 390
    views.same(first.counters["atomics"] + second.counters["atomics"], 0, "atomics")
    picture.text(40, y + 22, "Each pass makes S and dP of all tiles: seven products in place of five, and no atomics.", "m")
    return picture


def picture_05_backward_registers():
    picture = svg.Picture("backward_registers: who has which element of dQ",
                          "Four warps with 16 queries each; a thread has 4 rows and 8 columns.")
    launch = views.traced("05", "backward_registers", "--heads 1 --seq 64 --head-dim 64", 0)[-1]
    who = {}
    for block in launch.blocks:
        for event in block.events:
            if event["event"] == "atomic_update":
                for lane, (array, byte) in zip(traces.lanes(event["lanes"]), traces.places(event["at"])):
                    mine = event["warp"] == 0 and lane == 5
                    who[views.coordinates(launch, array, byte)] = 6 if mine else event["warp"]
    views.same(len(who), launch.counters["atomics"], "elements of dQ")
    bottom = views.owners(picture, 20, 44, 64, 64, 4, who, "dQ: 64 queries, 64 features", ["c0", "c2", "c3", "c4", "c5", "c6", "c1"])
    picture.legend(320, 76, [("c0", "warp 0"), ("c2", "warp 1"), ("c3", "warp 2"), ("c4", "warp 3")])
    picture.legend(320, 100, [("c1", f"thread 5: {list(who.values()).count(6)} elements")])
    for i, kernel in enumerate(("backward_recompute", "backward_registers")):
        counters = views.traced("05", kernel, "--heads 1 --seq 64 --head-dim 64", 0)[-1].counters
        picture.text(320, 150 + 22 * i, f"{kernel}: {counters['shared_loads']:,} loads from shared memory")
    picture.down_to(bottom)
    return picture
