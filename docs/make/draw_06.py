"""Step 06: the causal mask, tensor cores' fragments, and the pipelines."""
import collections
import math

import replay
import maps
import svg
import traces
import views

# Speeds that the lesson's table of measurements compares (report.py).
RATIOS = [("mma_ordered", "torch_flash2"),
          ("backward_mma_async", "torch_flash2"), ("decode_wgmma", "cudnn"), ("decode_ring", "cudnn"), ("decode_ring", "flash3"),
          *((ours, peer) for ours in ("skipping", "backward_fused") for peer in ("cudnn", "flash3", "flash4"))]

LONG = "--heads 1 --seq 512 --head-dim 128"
SHORT = "--heads 1 --seq 256 --head-dim 64"


def tile_of(d, Bc):
    """K and V by the number of the tile of keys, which a box of the copy engine says with its second coordinate."""
    def name(array, where):
        if array not in "KV":
            return "Q" if array == "Q" else None
        return f"{array}{(where[1] if isinstance(where, list) else where // (2 * d)) // Bc}"
    return name


def axes(title, says, sides, sizes, d, rows, end=None, note="", names=None):
    """Kernels one below the other on one time axis; rows are (warp or None for any, what)."""
    picture = svg.Picture(title, says)
    launches = [(kernel, views.traced("06", kernel, sizes, 0)[-1], Bc) for kernel, Bc in sides]
    longest = end or max(max(span.end for span in replay.spans(launch, launch.blocks[0], tile_of(d, Bc))[0])
                         for _, launch, Bc in launches)
    y = 40
    for kernel, launch, Bc in launches:
        y = views.axis(picture, y, launch, launch.blocks[0], tile_of(d, Bc), kernel, rows, longest, names) + 8
    picture.text(16, y + 8, note
                 or "Block 0. A colour and a number: a tile of keys, K or V; the first copies: Q. A thick line: a barrier of the block.",
                 "m")
    picture.text(16, y + 26, replay.SAYS_TENSOR, "m s")
    return picture


WARP = [(0, what) for what in ("load", "copy", "read", "product", "softmax")]
GROUPS = [(None, "copy"), (0, "product"), (0, "softmax"), (4, "product"), (4, "softmax"), (None, "out")]
NAMES = {(0, "product"): "A: products", (4, "product"): "B: products", (0, "softmax"): "A: softmax",
         (4, "softmax"): "B: softmax", "out": "O on its way"}
TWO = "A, B: block 0's warpgroups, 64 queries each. Colour and number: a tile of keys; purple: Q."


def picture_06_map():
    return maps.opening("06", "mma", "--heads 1 --seq 128 --head-dim 64", "O", ("Q", "K", "V"))


def picture_06_tiles():
    picture = svg.Picture("Which tiles of a causal problem are skipped, masked, full?",
                          "Tiles above the diagonal are never loaded, those that it cuts are masked.")
    x = 60
    for seq_q, seq_kv in ((256, 256), (160, 288)):
        launch = views.traced("06", "mma", f"--heads 1 --seq-q {seq_q} --seq-kv {seq_kv} --head-dim 64 --causal")[-1]
        cell = 1.15
        loaded = collections.Counter()
        picture.text(x - 10, 58, f"seq_q = {seq_q}, seq_kv = {seq_kv}, Br = Bc = 64", "t b")
        for block in launch.blocks:
            rows = {kind: {row for row, _ in views.elements(launch, "load", kind, blocks=[block])} for kind in "QK"}
            i = min(rows["Q"]) // 64
            for j in range(math.ceil(seq_kv / 64)):
                height, width = min(64, seq_q - i * 64), min(64, seq_kv - j * 64)
                seen = [[key <= query + seq_kv - seq_q for key in range(j * 64, j * 64 + width)]
                        for query in range(i * 64, i * 64 + height)]
                some, every = any(map(any, seen)), all(map(all, seen))
                here = any(row // 64 == j for row in rows["K"])
                views.same(here, some, f"tile {i}, {j}")
                what = "skipped" if not here else "full" if every else "masked"
                loaded[what] += 1
                place = (round(x + j * 64 * cell, 1), round(70 + i * 64 * cell, 1), round(width * cell - 2, 1),
                         round(height * cell - 2, 1))
                picture.cells({"skipped": "e", "full": "c0", "masked": "c1"}[what], [place])
                at = place[0] + place[2] / 2, place[1] + place[3] / 2 + 4
                if what == "masked":  # below the diagonal
                    at = place[0] + 24, place[1] + place[3] - 5
                if place[2] > 46:
                    picture.text(*at, what, "m s" if what == "skipped" else "in s", "middle")
        begin = x + (seq_kv - seq_q) * cell
        picture.lines("w", [(begin, 70, x + seq_kv * cell, 70 + seq_q * cell)])
        picture.text(x, 92 + seq_q * cell, ", ".join(f"{count} {what}" for what, count in sorted(loaded.items())), "m")
        x += 400
    picture.legend(60, 412, [("c0", "full"), ("c1", "masked"), ("e", "skipped: never loaded")])
    picture.text(60, 434, "Rows: tiles of queries, columns: tiles of keys. The line: the diagonal.", "m")
    return picture


def fragment(picture, x, y, rows, columns, owner, says, cell, lit):
    picture.text(x, y - 8, says, "t b")
    for row in range(rows):
        for column in range(0, columns, 2):
            lane, register = owner(row, column)
            picture.cells("c1" if lane == lit else f"c{register % 4 + (register % 4 > 0)}",
                          [(x + column * cell, y + row * 17, 2 * cell - 1, 16)])
            picture.text(x + (column + 1) * cell, y + row * 17 + 12, lane, "in s", "middle")


def picture_06_mma():
    picture = svg.Picture("mma: what a product leaves (D) lies as the next product takes it (A)",
                          "The lane of each pair in two results D of 16 by 8 and in one factor A of 16 by 16.")
    lit = 5
    for half in range(2):
        fragment(picture, 20 + half * 200, 76, 16, 8, lambda row, column,
                 half=half: (row % 8 * 4 + column // 2, row // 8 + 2 * half),
                 f"D: keys {half * 8} to {half * 8 + 7}", 22, lit)
    fragment(picture, 450, 76, 16, 16, lambda row,
             column: (row % 8 * 4 + column % 8 // 2, row // 8 + 2 * (column // 8)), "A of P: keys 0 to 15", 22, lit)
    picture.arrow("w", 402, 212, 442, 212)
    picture.legend(20, 376, [("c0", "d0 d1 = a0"), ("c2", "d2 d3 = a1"), ("c3", "d0' d1' = a2"), ("c4", "d2' d3' = a3"),
                             ("c1", f"lane {lit}")])
    picture.text(20, 400,
                 "A cell is two neighbours in one register, the number its lane. A lane has the same places left and right:", "m")
    picture.text(20, 416, "its own results are its own factors, and nothing moves between lanes.", "m")
    return picture


def picture_06_ldmatrix():
    launch = views.traced("06", "mma", SHORT, 0, 0)[-1]
    event = next(event for event in views.accesses(launch, "load", "dynamic", "shared", 0) if event["bytes"] == 16)
    picture = svg.Picture("ldmatrix: who says where, and who gets what?",
                          "Each lane gives the address of one row of 16 bytes; each row is handed to four lanes.")
    places = traces.places(event["at"])
    views.same(len(places), 32, "lanes of ldmatrix")
    for matrix in range(4):
        x = 20 + matrix * 202
        picture.text(x, 62, f"matrix {matrix}", "t b")
        for row in range(8):
            lane = matrix * 8 + row
            picture.cells("c1", [(x, 74 + row * 20, 30, 17)])
            picture.text(x + 15, 87 + row * 20, lane, "in s", "middle")
            picture.text(x + 36, 87 + row * 20, places[lane][1], "m s")
            picture.cells("c0", [(x + 76 + part * 28, 74 + row * 20, 26, 17) for part in range(4)])
            for part in range(4):
                picture.text(x + 89 + part * 28, 87 + row * 20, row * 4 + part, "in s", "middle")
    _, count = views.wavefronts(launch, event)
    picture.text(20, 260,
                 "Orange: the lane that gives the address, and the byte in shared memory where its row begins. Blue: the lane that gets", "m")
    picture.text(20, 276, f"these two halves. All four matrices: {count} wavefronts for 512 bytes.", "m")
    return picture


def picture_06_mma_async():
    return axes("mma_async: the next tile is copied while this one is multiplied",
                "K and V of the next tile are on their way during the products.",
                (("mma", 64), ("mma_async", 64)), SHORT, 64, WARP)


def picture_06_mma_swizzled():
    launch = views.traced("06", "mma_swizzled", SHORT, 0, 0)[-1]
    picture = svg.Picture("mma_swizzled: chunk c of row r lies at place c ^ (r % 8)",
                          "The banks of ldmatrix with rows of 128 bytes, padded, and swizzled.")
    x, y = 20, 64
    picture.text(x, y - 10, "eight rows of 128 bytes; the number is the chunk", "m")
    for row in range(8):
        for place in range(8):
            picture.cells("c1" if place ^ row == 0 else "e", [(x + place * 44, y + row * 22, 42, 20)])
            picture.text(x + place * 44 + 21, y + row * 22 + 14, place ^ row, "in b" if place ^ row == 0 else "m s",
                         "middle")
    picture.text(x + 380, y + 14, "Chunk 0 of the eight rows: eight places,", "m")
    picture.text(x + 380, y + 32, "four banks each, all 32 banks once.", "m")
    picture.text(x + 380, y + 62, "Below, a row of cells is a wavefront, a column", "m")
    picture.text(x + 380, y + 80, "a bank, and the number is the row that is read.", "m")
    reads = [event for event in views.accesses(launch, "load", "dynamic", "shared", 0) if event["bytes"] == 16]
    padded = [event for event in views.accesses(views.traced("06", "mma_async", SHORT, 0, 0)[-1], "load", "dynamic",
                                                "shared", 0) if event["bytes"] == 16]
    eight = {**reads[0], "lanes": 255, "at": [[array, byte, 0, 1] for array, byte in traces.places(reads[0]["at"])[:8]]}
    y += 196
    begin = launch.arrays["shared", "dynamic"].begin
    for says, words in (("one chunk of eight rows, swizzled, as the kernel's ldmatrix reads it",
                         [(begin + byte) // 4 for _, byte in traces.places(eight["at"])]),
                        ("without the swizzle: the same four banks for all", [32 * row for row in range(8)]),
                        ("mma_async: rows padded by 16 bytes", [byte // 4
                                                               for _, byte in traces.places(padded[0]["at"])[:8]])):
        moved = traces.moved({**eight, "at": [["a", 4 * word, 0, 1] for word in words]},
                             {("shared", "a"): 0})["wavefronts"]
        y = views.banks(picture, 20, y, words, says, moved, cell=24.2, width=4)
    return picture


def picture_06_mma_ordered():
    picture = svg.Picture("mma_ordered: which blocks start first?",
                          "Blocks in the order of their numbers; before, long ones come anywhere, now first.")
    y = 44
    for kernel in ("mma_swizzled", "mma_ordered"):
        launch = views.traced("06", kernel, "--heads 4 --seq 512 --head-dim 64 --causal", None, 0)[-1]
        keys = []
        for block in launch.blocks:
            rows = {row % 512 for row, _ in views.elements(launch, "load", "K", blocks=[block])}
            keys.append(min(512, (max(rows) // 48 + 1) * 48))
        picture.text(16, y + 12, f"{kernel}: keys that block 0, 1, 2, ... sees", "t b")
        y += 24
        for number, count in enumerate(keys):
            picture.cells("c0", [(16 + number * 49, y + round((512 - count) * 0.15, 1), 45, round(count * 0.15, 1))])
            picture.text(38 + number * 49, y + 92, count, "m s", "middle")
        y += 104
        y = waves(picture, y, keys) + 14
    picture.text(16, y + 4, "The bars below: three multiprocessors, each of which takes the next block when it is free. To the right: time.", "m")
    picture.text(16, y + 22, "A colour is a block; six take turns.", "m")
    return picture


def waves(picture, y, lengths, processors=3):
    """Blocks in order, each taken by the multiprocessor that is free first."""
    free = [0] * processors
    for number, length in enumerate(lengths):
        one = free.index(min(free))
        picture.cells(views.PLACES[number % 6], [(16 + round(free[one] * 0.34, 1), y + one * 16,
                                                  round(length * 0.34, 1) - 1, 14)])
        free[one] += length
    picture.text(16 + max(free) * 0.34 + 8, y + 12, f"{max(free)} keys", "m")
    return y + processors * 16


def ring(picture, y, kernel, sizes, d, says, end):
    """The places of K in a ring: filled by a copy, full, read until all consumers have arrived at `empty`."""
    launch = views.traced("06", kernel, sizes, 0)[-1]
    found, _ = replay.spans(launch, launch.blocks[0], tile_of(d, 128))
    places = sorted({event["shared"][0][1] for event in launch.blocks[0].events if event["event"] == "tma_load"
                     and event["at"][0][0] == "K" and event["from"][0] == 0})
    order = [event for event in launch.blocks[0].events if event["event"] == "tma_load" and event["at"][0][0] == "K"
             and event["from"][0] == 0]
    x0, scale = 150, (svg.WIDTH - 166) / end
    picture.text(16, y + 12, says, "t b")
    y += 24
    uses = collections.Counter()
    for event in order:
        place = places.index(event["shared"][0][1])
        name = f"K{event['from'][1] // 128}"
        copies = [span for span in found if span.what == "copy" and span.place == name]
        reads = [span for span in found if span.what == "product" and span.place == name]
        top = y + place * 46
        begin, full, done = min(span.begin for span in copies), max(span.end for span in copies), max(span.end
                for span in reads)
        picture.cells("c7", [(round(x0 + begin * scale, 1), top, round((full - begin) * scale, 1), 26)])
        picture.cells(views.colour_of(name), [(round(x0 + full * scale, 1), top, round((done - full) * scale, 1), 26)])
        picture.text(x0 + (full + done) / 2 * scale, top + 17, name, "in b", "middle")
        picture.text(x0 + full * scale + 2, top + 39, f"full: phase {uses[place]} over, parity {uses[place] % 2}",
                     "m s")
        uses[place] += 1
    for place in range(len(places)):
        picture.text(x0 - 10, y + place * 46 + 17, f"place {place}", "m", "end")
        picture.lines("g", [(x0, y + place * 46 + 26, svg.WIDTH - 16, y + place * 46 + 26)])
    return y + len(places) * 46 + 6


def picture_06_producer_warp():
    picture = svg.Picture("producer_warp: which place of the ring is full when?",
                          "Two places for K, filled in turn, each with a full and an empty barrier.")
    launch = views.traced("06", "producer_warp", LONG, 0)[-1]
    end = max(span.end for span in replay.spans(launch, launch.blocks[0], tile_of(128, 128))[0])
    y = ring(picture, 40, "producer_warp", LONG, 128, "the two places of K", end)
    y = views.axis(picture, y + 4, launch, launch.blocks[0], tile_of(128, 128), "producer_warp", GROUPS[:5], end, NAMES)
    picture.legend(16, y + 10, [("c7", "being filled; then full, in the tile's colour, until all warps have arrived at its empty barrier")])
    picture.text(16, y + 32,
                 "From the second use of a place on, its copy begins when it is empty. A wait for a full place asks for the parity below it.", "m")
    picture.text(16, y + 50, replay.SAYS_TENSOR, "m s")
    return picture


def picture_06_ping_pong():
    return axes("ping_pong: the warpgroups take turns at the tensor cores", "Named barriers pass the turn.",
                (("overlap", 128), ("ping_pong", 128)), LONG, 128, GROUPS[:5],
                note=TWO + " Thick line: the turn passes.", names=NAMES)


def picture_06_folded():
    picture = svg.Picture("folded: which tiles of keys does each warpgroup compute?",
                          "The last tile of keys, computed by one warpgroup of each block instead of by both of one.")
    x, keys, queries = 16, 1152, 256
    for kernel in ("drawn_pairs", "folded"):
        launch = views.traced("06", kernel, f"--heads 1 --seq-q {queries} --seq-kv {keys} --head-dim 128 --causal")[-1]
        picture.text(x, 56, kernel, "t b")
        unseen = 0
        for block in launch.blocks:
            loads = [event for event in block.events if event["event"] == "tma_load" and event["at"][0][0] == "Q" and event["from"][0] == 0]
            for group, load in enumerate(sorted(loads, key=lambda event: event["shared"][0][1])):
                row = load["from"][1]
                products = sum(event["event"] == "wgmma" and event["warp"] == 4 * group for event in block.events)
                tiles = products // 16  # 8 products for a tile of keys, and 8 for its values
                seen = -(-(keys - queries + row + 64) // 128)
                y = 84 + row / 64 * 26
                for tile in range(tiles):
                    picture.cells(f"c{block.number}" if tile < seen else "c7", [(x + 120 + tile * 28, y, 26, 22)])
                unseen += max(0, tiles - seen)
                picture.text(x, y + 15, f"rows {row} to {row + 63}", "m")
        picture.text(x + 120, 78, f"{keys // 128} tiles of keys", "m")
        picture.text(x, 204, f"tiles computed and masked whole: {unseen}", "m")
        x += 410
    picture.legend(16, 232, [("c0", "by a warpgroup of block 0"), ("c1", "of block 1"), ("c7", "computed by block 0 and masked whole")])
    return picture


def picture_06_persistent_blocks():
    sizes = "--heads 4 --seq 1024 --head-dim 64 --causal"
    blocks = len(views.traced("06", "persistent_blocks", sizes)[-1].blocks)
    # In tma_store each tile has a block of its own, of the same number.
    lengths = [sum(event["event"] == "tma_load" and event["from"][0] == 0 and event["at"][0][0] == "K" for event in block.events)
               for block in views.traced("06", "tma_store", sizes)[-1].blocks]
    picture = svg.Picture("persistent_blocks: who takes which tile?", "Dealt out by number, and taken by whoever is free.")
    shares = [lengths[block::blocks] for block in range(blocks)]
    dealt = [sum(share) for share in shares]
    scale = 600 / max(dealt)
    free, taken = [0] * blocks, [[] for _ in shares]
    for length in lengths:
        one = free.index(min(free))
        taken[one].append(length)
        free[one] += length
    y = 44
    for says, rows in ((f"dealt: tile b, b + {blocks}, ... for block b", shares),
                       ("drawn: whoever is free takes the next tile, longest first", taken)):
        picture.text(16, y + 12, says, "t b")
        y += 22
        for number, row in enumerate(rows):
            x = 90
            picture.text(x - 8, y + 13, f"block {number}", "m", "end")
            for turn, length in enumerate(row):
                picture.cells(views.PLACES[turn % 6], [(round(x, 1), y, round(length * scale, 1) - 1, 16)])
                picture.text(x + length * scale / 2, y + 12, length, "in s", "middle")
                x += length * scale
            y += 19
        busy = [sum(row) for row in rows]
        picture.text(90, y + 12,
                     f"the last block is done after {max(busy)} tiles of keys; on average {sum(busy) / len(busy):.1f}")
        y += 34
    picture.text(16, y,
                 "The number of tiles of keys of each tile of queries is the trace's; one tile of keys takes one step of time.", "m")
    picture.text(16, y + 18, "Blue, orange, green: the first, second and third tile of a block.", "m")
    return picture


def picture_06_backward_mma():
    picture = svg.Picture("backward_mma: a warp has keys of S and queries of dQ",
                          "Left: who stores which element of dS, transposed, in shared memory. Right: who adds which element of dQ.")
    launch = next(launch for launch in views.traced("06", "backward_mma", "--heads 1 --seq 64 --head-dim 64 --type f16", 0)
                  if "backward_mma" in launch.kernel)
    kinds, keys, queries = ["c0", "c2", "c3", "c4", "c5", "c6", "c1"], {}, {}
    pitch = 64 + 8  # elements of a row of dS
    stores = [event for event in views.accesses(launch, "store", "dynamic", "shared") if event["bytes"] == 4]
    places = [(event["warp"], lane, byte) for event in stores for lane, (_, byte) in zip(traces.lanes(event["lanes"]), traces.places(event["at"]))]
    first = 4 * 64 * (64 + 8) * 2  # behind Q, dO, K and V
    for warp, lane, byte in places:
        if first <= byte < first + 64 * pitch * 2:
            row, column = divmod((byte - first) // 2, pitch)
            for more in range(2):
                keys[row, column + more] = 6 if (warp, lane) == (0, 5) else warp
    for block in launch.blocks:
        for event in block.events:
            if event["event"] == "atomic_update":
                for lane, (array, byte) in zip(traces.lanes(event["lanes"]), traces.places(event["at"])):
                    queries[divmod(byte // 4, 64)] = 6 if (event["warp"], lane) == (0, 5) else event["warp"]
    views.same(len(keys), 64 * 64, "elements of dS")
    views.same(len(queries), launch.counters["atomics"], "elements of dQ")
    bottom = views.owners(picture, 20, 44, 64, 64, 4, keys, "dS transposed: 64 keys, 64 queries", kinds)
    views.owners(picture, 320, 44, 64, 64, 4, queries, "dQ: 64 queries, 64 features", kinds)
    picture.legend(600, 76, [("c0", "warp 0"), ("c2", "warp 1")])
    picture.legend(600, 100, [("c3", "warp 2"), ("c4", "warp 3")])
    picture.legend(600, 124, [("c1", f"thread 5: {list(keys.values()).count(6)} of dS")])
    picture.down_to(bottom)
    return picture


def picture_06_backward_mma_async():
    picture = svg.Picture("backward_mma_async: dQ is added as it lies in registers",
                          "Left: the warp that makes an element of dQ, and thread 5's. Right: where in the workspace they are added.")
    launches = views.traced("06", "backward_mma_async", "--heads 1 --seq 64 --head-dim 64 --type f16", 0)
    adds, puts = (next(launch for launch in launches if name in launch.kernel)
                  for name in ("backward_mma_async", "put_in_rows"))
    kinds = ["c0", "c2", "c3", "c4", "c1"]

    def touched(events, size, count):
        """What each thread touches, in the order in which it does."""
        elements = collections.defaultdict(list)
        for event in events:
            for lane, (_, byte) in zip(traces.lanes(event["lanes"]), traces.places(event["at"])):
                elements[event["warp"], lane] += [divmod(byte // size + i, 64) for i in range(count)]
        return elements

    added = touched((event for block in adds.blocks for event in block.events if event["event"] == "atomic_update"), 4, 4)
    workspace = {at: 4 if thread == (0, 5) else thread[0] for thread, places in added.items() for at in places}
    loaded, stored = touched(views.accesses(puts), 4, 4), touched(views.accesses(puts, "store"), 2, 8)
    put = touched(views.accesses(puts, "store", space="shared"), 2, 2)
    taken = touched(views.accesses(puts, space="shared"), 2, 8)
    passed = {at: workspace[place] for thread in loaded for at, place in zip(put[thread], loaded[thread])}
    matrix = {to: passed[at] for thread in taken for at, to in zip(taken[thread], stored[thread])}
    views.same(len(matrix), 64 * 64, "elements of dQ")
    views.same(len(workspace), 4 * adds.counters["atomics"], "floats that are added")
    bottom = views.owners(picture, 20, 44, 64, 64, 4, matrix, "dQ: 64 queries, 64 features", kinds)
    views.owners(picture, 320, 44, 64, 64, 4, workspace, "the workspace: 64 rows of 64 floats", kinds)
    picture.legend(600, 76, [("c0", "warp 0"), ("c2", "warp 1")])
    picture.legend(600, 100, [("c3", "warp 2"), ("c4", "warp 3")])
    picture.legend(600, 124, [("c1", f"thread 5: {list(matrix.values()).count(4)} floats,")])
    picture.text(600, 152, "pairs in dQ and,", "m")
    picture.text(600, 170, "in the workspace, fours", "m")
    picture.down_to(bottom)
    return picture


def picture_06_backward_in_turn():
    picture = svg.Picture("backward_in_turn: a tile of dQ goes from block to block",
                          "A row is a block, a column a tile of queries. Each block adds to the tiles that see its keys; an arrow passes a turn on to the next block.")
    launch = next(launch for launch in views.traced("06", "backward_in_turn", "--heads 1 --seq 512 --head-dim 64 --causal")
                  if "backward_in_turn" in launch.kernel)
    ticket = min(byte for block in launch.blocks for event in block.events if event["event"] == "atomic_update"
                 for _, byte in traces.places(event["at"]))
    warps, passed = 4, set()
    for block in launch.blocks:
        for event in block.events:
            if event["event"] == "atomic_write" and event["warp"] == 0:
                (_, byte), = traces.places(event["at"])
                passed.add(((byte - ticket - 4) // 4 // warps, block.number))
    for tile, block in passed:
        views.same(block, sum((tile, before) in passed for before in range(block)), "blocks that add to a tile before")
    x, y, width, height = 190, 92, 72, 52
    picture.text(x, 52, "tiles of 64 queries", "t b")
    for block, colour in enumerate(("c0", "c2", "c3", "c4")):
        top = y + block * height
        picture.text(16, top + 22, f"keys {block * 128} to {block * 128 + 127}", "t")
        picture.cells(colour, [(x + tile * width, top, width - 8, 34) for tile, owner in passed if owner == block])
    for tile, block in passed:
        picture.text(x + tile * width + width / 2 - 4, y + block * height + 22, f"turn {block}", "in s b", "middle")
        if (tile, block + 1) in passed:
            picture.arrow("ow", x + tile * width + width / 2 - 4, y + block * height + 35, x + tile * width + width / 2 - 4, y + (block + 1) * height - 1)
    for tile in range(8):
        picture.text(x + tile * width + width / 2 - 4, 78, str(tile), "m", "middle")
    bottom = y + 4 * height + 10
    picture.text(16, bottom, "Down a column: the order of the additions, always this one. Along a row: the order in which a block goes.", "m")
    return picture


def wavefronts_of_a_tile(launch, kernel, dS_begins):
    """The wavefronts of shared memory, in one block, of its only tile of queries: {what moves: wavefronts}."""
    found, numbers = collections.Counter(), set()
    products = {event["line"] for event in launch.blocks[0].events if event["event"] == "wgmma"}
    for event in launch.blocks[0].events:
        if event["event"] == "tma_load" and event["at"][0][0] in ("Q", "dO"):
            found["tiles"] += event["wavefronts"]
        elif event["event"] == "atomic_update" and event["lanes"].bit_count() == 1:  # a bulk addition
            found["dQ"] += event["size"] // 128
        elif event.get("space") == "shared":
            own = kernel.removeprefix("backward_") in event["line"]  # or in the header that later rungs share
            if event["line"] in products or not own and event["bytes"] == 16:
                dS = event["event"] == "store" or event["at"][0][1] >= dS_begins
                found["dS" if dS else "factors"] += event["wavefronts"]
            elif event["bytes"] == 4:  # a compiler loads once what a thread wants twice
                request = (event["event"], event["warp"], str(event["at"]))
                found["numbers"] += event["wavefronts"] * (request not in numbers)
                numbers.add(request)
            elif kernel == "backward_bulk_adds":
                found["dQ"] += event["wavefronts"]
    return found


def picture_06_backward_one_barrier():
    picture = svg.Picture("backward_one_barrier: shared memory moves less",
                          "A bar for each kernel: wavefronts of shared memory by what they move, for 64 queries and 128 keys. A line where the tensor cores are done.")
    width, label, most = 128, 190, 3400
    bars = []
    for kernel in ("backward_wgmma", "backward_bulk_adds", "backward_one_barrier"):
        launch = next(launch for launch in views.traced("06", kernel, f"--heads 1 --seq-q 64 --seq-kv 128 --head-dim {width}", 0)
                      if kernel in launch.kernel)
        bars.append((kernel, wavefronts_of_a_tile(launch, kernel, 2 * (2 * 128 + 4 * 64) * width)))
    kinds = {"factors": "c0", "numbers": "c2", "tiles": "c3", "dS": "c4", "dQ": "c1"}
    bottom = views.stacked(picture, 62, bars, kinds, "wavefronts", label, most)
    cycles = 5 * 2 * 64 * 128 * width // 4096
    x = label + cycles * (svg.WIDTH - label - 150) / most
    picture.lines("w", [(x, 56, x, bottom - 6)])
    picture.text(x, 50, f"tensor cores: {cycles:,} cycles", "m", "middle")
    picture.legend(16, bottom + 16, [("c0", "factors of products: Q, K, V, dO")])
    picture.legend(290, bottom + 16, [("c2", "LSE and D")])
    picture.legend(400, bottom + 16, [("c3", "Q and dO arrive")])
    picture.legend(550, bottom + 16, [("c4", "dS stored and read")])
    picture.legend(720, bottom + 16, [("c1", "dQ")])
    picture.text(16, bottom + 44, f"Of a tile of 64 queries, 128 keys and HEAD_DIM {width}. A wavefront takes a cycle and moves 128 bytes, whoever asks for it.", "m")
    return picture


def picture_06_backward_in_order():
    picture = svg.Picture("backward_in_order: last keys first, and nobody waits",
                          "A row is a block, a column a moment. In a cell: the tile of queries to which the block adds. In the first order blocks wait, in the second none does.")
    count = 4
    launch = next(launch for launch in views.traced("06", "backward_in_order", f"--heads 1 --seq {count * 128} --head-dim 64 --causal")
                  if "backward_in_order" in launch.kernel)
    ticket = min(byte for block in launch.blocks for event in block.events if event["event"] == "atomic_update" and event["size"] == 4
                 for _, byte in traces.places(event["at"]))
    tiles_of = {block.number: sorted((byte - ticket - 4) // 4 for event in block.events if event["event"] == "atomic_write"
                                     for _, byte in traces.places(event["at"])) for block in launch.blocks}
    for tile in range(count):
        views.same([min(tiles) for number, tiles in sorted(tiles_of.items()) if tile in tiles], [*range(tile, -1, -1)], f"turns at tile {tile}")

    y, cell, height = 78, 44, 34
    orders = (("first keys first", lambda keys: keys - 1), ("last keys first, as here", lambda keys: keys + 1))
    for side, (title, before) in enumerate(orders):
        x = 148 + side * 400
        picture.text(x, 52, title, "t b")
        added = {}
        for keys in range(count) if side == 0 else reversed(range(count)):
            for tile in range(keys, count):
                added[keys, tile] = max(added.get((keys, tile - 1), -1), added.get((before(keys), tile), -1)) + 1
        for (keys, tile), step in added.items():
            top = y + keys * height
            picture.cells(("c0", "c2", "c3", "c4")[tile], [(x + step * cell, top, cell - 4, height - 6)])
            picture.text(x + step * cell + cell / 2 - 2, top + 19, str(tile), "in s b", "middle")
        for keys in range(count):
            waits = added[keys, keys]
            if waits:
                picture.text(x + waits * cell - 8, y + keys * height + 19, "waits", "m s", "end")
            if side == 0:
                picture.text(16, y + keys * height + 19, f"keys {keys * 128} to {keys * 128 + 127}", "t")
    bottom = y + count * height + 18
    picture.text(16, bottom, "A number: a tile of 128 queries. If all blocks begin at once and each tile takes one step, this is the earliest order.", "m")
    return picture


def picture_06_backward_persistent():
    picture = svg.Picture("backward_persistent: from tile of keys to tile of keys",
                          "What block 0 takes one after the other: for each tile of queries, what each of its two warpgroups multiplies.")
    launch = next(launch for launch in views.traced("06", "backward_persistent", "--heads 5 --seq 256 --head-dim 128 --causal")
                  if "backward_persistent" in launch.kernel)
    block, keys, rows = launch.blocks[0], [], []
    for event in block.events:
        if event["event"] == "tma_load" and event["from"][0] == 0 and event["at"][0][0] in "KQ":
            _, row, head = event["from"]
            if event["at"][0][0] == "K":
                keys.append((head, row))
            else:
                rows.append((len(keys) - 1, row))
    x, y, cell, gap = 130, 74, 66, 26
    place = [x + n * cell + of * gap for n, (of, _) in enumerate(rows)]
    for group, name in enumerate("AB"):
        top, lines = y + group * 40, [event["line"] for event in block.events if event["event"] == "wgmma" and event["warp"] == 4 * group]
        picture.text(16, top + 20, f"{name}: {('first', 'last')[group]} 64 keys", "m s")
        for (of, row), left in zip(rows, place):
            half = "one_barrier" in lines[0]  # dQ's product comes first: the others were left out
            of_tile = 8 if half else 2 * 8 + 2 * 4 + 8  # instructions: S and dP, dV and dK, dQ
            views.same(half, group == 1 and row == keys[of][1], f"what {name} leaves out of queries {row}")
            lines = lines[of_tile:]
            picture.cells("e" if half else ("c0", "c2", "c3")[of], [(left, top, cell - 4, 32)])
            picture.text(left + cell / 2 - 2, top + 20, "dQ" if half else f"{row}", "m s" if half else "in s b", "middle")
        views.same(lines, [], f"what {name} multiplies besides")
    for of, (head, row) in enumerate(keys):
        left = min(left for (tile, _), left in zip(rows, place) if tile == of)
        picture.text(left, y - 26, f"head {head},", "t")
        picture.text(left, y - 10, f"keys {row} to {row + 127}", "t")
        if of > 0:
            picture.lines("w", [(left - gap / 2 - 2, y - 6, left - gap / 2 - 2, y + 78)])
    picture.text(16, y + 104, "A number: the first of 64 queries whose five products the warpgroup makes. dQ: that product alone.", "m")
    picture.text(16, y + 122, "A line: dK and dV are stored through dS, while the next K, V, Q and dO arrive.", "m")
    return picture


def picture_06_backward_fused():
    picture = svg.Picture("backward_fused: jobs, and who has which place",
                          "The jobs in the order in which keepers draw them, and below for each place in the workspace which head has it meanwhile.")
    heads, places, pieces, of_piece = 9, 6, 2, 64 * 64 * 4
    launch = next(launch for launch in views.traced("06", "backward_fused", "--heads 9 --seq-q 64 --seq-kv 1030 --head-dim 64") if "backward_fused" in launch.kernel)
    jobs = [(True, head) for head in range(places)]
    for head in range(heads):
        jobs += [(True, head + places)] * (head + places < heads) + [(False, head)]
    read = collections.Counter((place[0], place[1]) for block in launch.blocks for event in block.events
                               if event["event"] == "load" and event["space"] == "global" and (event["warp"] or 0) > 8 for place in event["at"][:1])
    views.same([read["dO", head * 64 * 64 * 2] for head in range(heads)], [1] * heads, "D of each head")
    views.same([read["workspace", (head % places * pieces + piece) * of_piece] for head in range(places) for piece in range(pieces)],
               [sum(not makes_D and head % places == place for makes_D, head in jobs) for place in range(places) for _ in range(pieces)], "dQ of each place")

    x, y, width, kinds = 130, 60, 39, ("c0", "c1", "c2", "c3", "c4", "c7")
    picture.text(16, y + 21, "jobs, in order", "t")
    for number, (makes_D, head) in enumerate(jobs):
        left = x + number * width
        picture.cells(kinds[head % places], [(left, y, width - 4, 32)])
        picture.text(left + width / 2 - 2, y + 20, f"{'D' if makes_D else 'dQ'} {head}", "in s b", "middle")
    for place in range(places):
        top, begin = y + 52 + place * 30, 0
        picture.text(16, top + 17, f"place {place}", "t")
        for head in range(place, heads, places):
            end = jobs.index((False, head)) + 1
            picture.cells(kinds[place], [(x + begin * width, top, (end - begin) * width - 4, 24)])
            picture.text(x + begin * width + 8, top + 16, f"head {head}", "in s b")
            begin = end
    picture.text(16, y + 250, f"A number: the head. Each cell is {pieces} jobs, of 64 rows each. Nine heads, eight multiprocessors: six have a place.", "m")
    picture.text(16, y + 268, "Head 6 may begin when D 6 and dQ 0 are done, head 7 when D 7 and dQ 1 are.", "m")
    return picture


def pages_of(launch, block, page):
    """The pages of the pool from which a block loads keys, in that order, each with its keys."""
    keys = collections.defaultdict(set)
    for event in views.accesses(launch, array="K", blocks=[block]):
        for _, row, _ in views.touched(launch, event):
            keys[row // page].add(row % page)
    return {number: len(rows) for number, rows in keys.items()}


def picture_06_decode_packed():
    picture = svg.Picture("decode: who reads which key?",
                          "Runs of keys that each block reads for which heads, in decode_split and decode_packed; and the pages of a pool that hold the keys of two sequences.")
    heads, keys, run, cell, top = 8, 512, 64, 40, 96
    for side, kernel in enumerate(("decode_split", "decode_packed")):
        launch = views.traced("06", kernel, f"--heads {heads} --kv-heads 1 --seq-q 1 --seq-kv {keys} --head-dim 64")[0]
        x, loaded = 70 + side * 410, sum(views.volume(launch, array=array) for array in "KV")
        views.same(loaded, (heads if side == 0 else 1) * 2 * keys * 64 * 2, kernel)
        picture.text(x - 54, 54, f"{kernel}: {len(launch.blocks)} blocks, K and V move {views.times(heads if side == 0 else 1)}", "t b")
        picture.text(x, top - 12, f"keys, {run} in a column", "m s")
        for head in range(heads):
            picture.text(x - 8, top + head * 18 + 13, f"head {head}", "m s", "end")
        for number, block in enumerate(launch.blocks):
            rows = {row for row, _ in views.elements(launch, "load", "K", blocks=[block])}
            queries = {row for row, _ in views.elements(launch, "load", "Q", blocks=[block])}
            left, high = x + min(rows) // run * cell, 18 * len(queries) - 2
            picture.cells(views.PLACES[min(queries) % 6] if side == 0 else "c0", [(left, top + min(queries) * 18, cell - 2, high)])
            picture.text(left + cell / 2 - 1, top + min(queries) * 18 + high / 2 + 4, number, "in s", "middle")
    y = top + heads * 18 + 22
    picture.text(16, y, "A number: a block. Eight heads that share their keys are eight rows of one product.", "m")

    page = 64
    launch = views.traced("06", "decode_packed", f"--batch 2 --heads 8 --kv-heads 1 --seq-q 1 --seq-kv 256 --head-dim 64 --lengths --page {page}")[0]
    pool, y = launch.arrays["global", "K"].shape[0], y + 40
    picture.text(16, y, f"Keys in pages of {page}: two sequences, one pool", "t b")
    tables = [pages_of(launch, block, page) for block in launch.blocks]
    wide, where = 62, y + 100
    for sequence, table in enumerate(tables):
        x, kind = 16 + sequence * 410, f"c{sequence}"
        for i, (number, count) in enumerate(table.items()):
            picture.cells("e", [(x + i * wide, y + 16, wide - 3, 22)])
            picture.cells(kind, [(x + i * wide, y + 16, (wide - 3) * count / page, 22)])
            picture.text(x + i * wide + 4, y + 31, f"{i * page}–{i * page + count - 1}", "in s")
            picture.cells("e", [(16 + number * wide, where, wide - 3, 22)])
            picture.cells(kind, [(16 + number * wide, where, (wide - 3) * count / page, 22)])
            picture.arrow("l" + kind[1], x + (i + 0.5) * wide, y + 40, 16 + (number + 0.5) * wide, where - 3)
        picture.text(x + len(table) * wide + 6, y + 31, f"sequence {sequence}: {sum(table.values())} keys", "m")
    for number in range(pool):
        if not any(number in table for table in tables):
            picture.cells("e", [(16 + number * wide, where, wide - 3, 22)])
        picture.text(16 + (number + 0.5) * wide, where + 38, f"page {number}", "m s", "middle")
    picture.text(16, where + 62, "Arrows are what the kernel did: the order in which a block went through the pool, after its sequence's row of the table.", "m")
    return picture


def picture_06_decode_wgmma():
    picture = svg.Picture("decode_wgmma: four warps that read a tile once, in place of four reads",
                          "What decode_balanced and decode_wgmma load from shared memory and store there, for 64 rows.")
    bars = [(kernel, {kind: sum(launch.counters[f"shared_{kind}s"] for launch in
                                views.traced("06", kernel, "--heads 64 --kv-heads 1 --seq-q 1 --seq-kv 2048", 0, 0))
                      for kind in ("load", "store")}) for kernel in ("decode_balanced", "decode_wgmma")]
    y = views.stacked(picture, 50, bars, {"load": "c0", "store": "c1"}, "accesses")
    picture.legend(190, y + 12, [("c0", "loads: ldmatrix, or wgmma's reads of 16 bytes"), ("c1", "stores and copies")])
    return picture
