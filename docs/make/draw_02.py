"""Step 02: tiles, registers, banks, pipelines, and how tiles share a device."""
import collections
import math

import maps
import svg
import traces
import views

# Speeds that the lesson's table of measurements compares (report.py).
RATIOS = [("sgemm_cluster", "cublas")]

SIZES = "--m 256 --n 256 --k 64"


def tile_of(depth, launch):
    """The number of a tile along K, of A by its column and of B by its row."""
    def number(array, byte):
        if array == "C":
            return None
        row, column = views.coordinates(launch, array, byte)
        return (column if array == "A" else row) // depth
    return number


def picture_02_map():
    return maps.opening("02", "async", "--m 256 --n 256 --k 32", "C", ("A", "B"))


def picture_02_shared_tile():
    launch, = views.traced("02", "shared_tile", "--m 64 --n 64 --k 64", 5)
    block = launch.blocks[0]
    picture = svg.Picture("shared_tile: a block's tiles slide along K; who reads the marked element of As?",
                          "The tile of A moves right, the tile of B moves down; the marked element of As is read by 16 threads.")
    loads = views.accesses(launch, "load")
    passes = len({event["t"] for event in block.events if event["event"] == "barrier"}) // 2
    tiles = collections.defaultdict(set)
    for event in loads:
        for _, row, column in views.touched(launch, event):
            tiles[event["at"][0][0], (column if event["at"][0][0] == "A" else row) // 16].add((row, column))
    mine = views.elements(launch, "store", "C")
    marked = (3, 5)
    readers = collections.Counter(event["warp"] * 32 + lane for event in views.accesses(launch, "load", "As", "shared")
                                  for lane, (_, byte) in zip(traces.lanes(event["lanes"]), traces.places(event["at"]))
                                  if divmod(byte // 4, 16) == marked)
    cell, x_a, x_b, top, low = 3, 20, 250, 66, 290
    picture.text(x_a, low - 8, "A  [64, 64]", "m")
    picture.text(x_b, top - 8, "B  [64, 64]", "m")
    picture.text(x_b, low - 8, "C  [64, 64]", "m")
    for x, y in ((x_a, low), (x_b, top), (x_b, low)):
        picture.cells("e", [(x, y, 64 * cell, 64 * cell)])
    picture.cells("c2", [(x_b + column * cell, low + row * cell, cell, cell) for row, column in mine])
    big, x_s = 14, 560
    picture.text(x_s, low - 8, f"the block's {len(mine)} threads", "m")
    picture.cells("e", [(x_s + column * big, low + row * big, big - 1, big - 1) for row in range(16)
                        for column in range(16)])
    picture.cells("c1", [(x_s + thread % 16 * big, low + thread // 16 * big, big - 1, big - 1) for thread in readers])
    picture.text(x_s, low + 16 * big + 16, f"{len(readers)} threads read As[{marked[0]}][{marked[1]}],", "t")
    picture.text(x_s, low + 16 * big + 32,
                 f"each {views.times(set(readers.values()).pop() // passes)} a tile: one row of the block", "t")
    picture.text(x_s, top - 8, "As, 16 x 16, in shared memory", "m")
    for number in range(passes):
        picture.frame(number, passes, 1.2 * passes, 1)
        picture.cells("c0", [(x_a + column * cell, low + row * cell, cell, cell) for row, column in tiles["A", number]])
        picture.cells("c0", [(x_b + column * cell, top + row * cell, cell, cell) for row, column in tiles["B", number]])
        row, column = min(tiles["A", number])
        picture.cells("c1", [(x_a + (column + marked[1]) * cell, low + (row + marked[0]) * cell, cell, cell)])
        picture.cells("c0", [(x_s + column * 12, top + row * 12, 11, 11) for row in range(16) for column in range(16)])
        picture.cells("c1", [(x_s + marked[1] * 12, top + marked[0] * 12, 11, 11)])
        picture.text(x_a, top + 20, f"tile {number + 1} of {passes}", "t h")
        picture.text(x_a, top + 44, f"A[{row}..{row + 15}][{column}..{column + 15}]", "t k")
        picture.text(x_a, top + 62, f"the mark: A[{row + marked[0]}][{column + marked[1]}]", "t k")
        picture.done()
    per_tile = views.volume(launch) // 4 // passes
    picture.text(x_a, top + 90, f"{per_tile} loads a tile: each thread", "m")
    picture.text(x_a, top + 106, "one of A, one of B", "m")
    return picture


def picture_02_banks():
    launch, = views.traced("02", "shared_tile", SIZES, 0, 0)
    picture = svg.Picture("32 banks: one row of cells is one wavefront, the number is the lane it serves",
                          "Reads of a tile along rows, down columns, and down columns with the rows padded to 17.")
    event_a, event_b = (views.accesses(launch, "load", name, "shared", 0)[0] for name in ("As", "Bs"))
    what = [(event_a, None, "As[y][k], as the kernel reads it: two words, each for 16 lanes"),
            (event_b, None, "Bs[k][x], as the kernel reads it: 16 neighbours, each for two lanes"),
            (event_b, lambda lane, word: word % 16 * 16, "transposed, Bs[x][k] at a pitch of 16: 16 words in 2 banks"),
            (event_b, lambda lane, word: word % 16 * 17, "transposed, Bs[x][k] padded to a pitch of 17")]
    y = 40
    for event, words, says in what:
        y = views.banks(picture, 16, y, *[(lanes, says, count)
                                          for lanes, count in [views.wavefronts(launch, event, words)]][0],
                                          cell=24.5) + 2
    launch, = views.traced("02", "vectorized", SIZES, 0, 0)
    event = views.accesses(launch, "store", "As", "shared", 0)[0]
    for words, says in ((None, "vectorized stores As[k][row], a pitch of 132"),
                        (lambda lane, word: word // 132 * 128 + word % 132, "the same at a pitch of 128")):
        lanes, count = views.wavefronts(launch, event, words)
        y = views.banks(picture, 16, y, lanes, says, count, cell=24.5) + 2
    return picture


def picture_02_register_tile():
    launch, = views.traced("02", "register_tile", SIZES, 0)
    picture = svg.Picture("register_tile: an outer product fills a thread's 64 sums",
                          "At each k a thread reads 8 numbers of A and 8 of B and adds their 64 products to its sums.")
    mine = views.elements(launch, "store", "C", 5, warp=0)
    rows, columns = sorted({row for row, _ in mine}), sorted({column for _, column in mine})
    picture.text(20, 56, "its elements of the tile of C, 128 x 128", "m")
    picture.cells("e", [(20, 66, 256, 256)])
    warp = views.elements(launch, "store", "C", warp=0)
    picture.cells("c0", [(20 + column * 2, 66 + row * 2, 2, 2) for row, column in warp], 0.4)
    picture.cells("c1", [(20 + column * 2, 66 + row * 2, 3, 3) for row, column in mine])
    picture.legend(20, 342, [("c1", "thread 5"), ("c0", "its warp: 2 x 16 threads")])
    x, y, cell = 420, 110, 34
    picture.grid(x, y, 8, 8, cell, 26)
    for i in range(8):
        picture.text(x + i * cell + 17, y - 6, columns[i], "m s", "middle")
        picture.text(x - 8, y + i * 26 + 17, rows[i], "m s", "end")
    picture.text(x + 136, y - 44, "b: 8 of Bs[k][column]", "m", "middle")
    picture.text(x - 40, y + 232, "a: 8 of As[row][k]; 16 reads, 64 multiply-adds", "m")
    for k in range(8):
        picture.frame(k, 8, 8, 4)
        picture.text(x - 110, y - 44, f"k = {k}", "t h")
        picture.cells("c0", [(x + i * cell + 3, y - 34, cell - 6, 14) for i in range(8)])
        picture.cells("c2", [(x - 66, y + i * 26 + 5, 30, 16) for i in range(8)])
        picture.cells("c1", [(x + j * cell + 1, y + i * 26 + 1, cell - 2, 24) for i in range(8) for j in range(8)],
                      (k + 1) / 8)
        for i in range(8):
            picture.text(x + i * cell + 17, y - 23, f"b{i}", "in s", "middle")
            picture.text(x - 51, y + i * 26 + 17, f"a{i}", "in s", "middle")
        picture.text(x + 8 * cell + 12, y + 20, "products", "m")
        picture.text(x + 8 * cell + 12, y + 36, f"per sum: {k + 1}", "m")
        picture.done()
    loads = views.accesses(launch, "load", None, "shared", 0)[:16]
    first = {event["at"][0][0]: event for event in reversed(loads)}
    reads = (("Bs", 366, (None, "b: columns x, x + 16, ..., as the kernel reads"),
              (lambda lane, word: lane % 16 * 8, "b: columns 8x ... 8x + 7 instead")),
             ("As", 478, (None, "a: rows y, y + 16, ..., as the kernel reads"),
              (lambda lane, word: lane // 16 * 64, "a: rows 8y ... 8y + 7 instead")))
    for name, y, *ways in reads:
        for x, (words, says) in zip((20, 425), ways):
            lanes, count = views.wavefronts(launch, first[name], words)
            views.banks(picture, x, y, lanes, says, count, cell=12)
    return picture


def pipelines(title, says, kernels):
    picture = svg.Picture(title, says)
    y, ends = 40, []
    for kernel in kernels:
        launch, = views.traced("02", kernel, SIZES, 0)
        found, _ = views.replay.spans(launch, launch.blocks[0], tile_of(8, launch))
        ends.append(max(span.end for span in found if span.what == "read"))
    for kernel in kernels:
        launch, = views.traced("02", kernel, SIZES, 0)
        barriers = sum(event["event"] == "barrier" for event in launch.blocks[0].events)
        y = views.axis(picture, y, launch, launch.blocks[0], tile_of(8, launch),
                       f"{kernel}: {barriers} barriers", [(0, what) for what in ("load", "copy", "store", "read")], max(ends)) + 8
    picture.text(16, y + 8, "Warp 0 of block 0. A colour and a number: a tile along K. A thick line: a barrier.", "m")
    picture.text(16, y + 26, views.replay.SAYS, "m s")
    return picture


def picture_02_async():
    return pipelines("vectorized, pipelined, async: when is each tile on its way, when is it used?",
                     "In async three tiles are on their way while one is multiplied.",
                     ("vectorized", "pipelined", "async"))


def picture_02_warp_tile():
    picture = svg.Picture("warp_tile: what must a warp read for its 2048 multiply-adds?",
                          "A warp of 2 by 16 threads reads 144 numbers at each k, one of 4 by 8 threads 96.")
    x = 20
    for kernel, shape in (("async", "2 x 16 lanes"), ("warp_tile", "4 x 8 lanes")):
        launch, = views.traced("02", kernel, SIZES, 0, 0)
        read = collections.defaultdict(set)
        array = {}
        for event in views.accesses(launch, "load", None, "shared", 0)[:4]:
            for name, byte in traces.places(event["at"]):
                read[name] |= {byte // 4 + i for i in range(event["bytes"] // 4)}
                array[name] = launch.arrays["shared", name]
        mine = views.elements(launch, "store", "C", warp=0)
        rows, columns = {row for row, _ in mine}, {column for _, column in mine}
        views.same((len(rows), len(columns)), (len(read["As"]), len(read["Bs"])), kernel)
        picture.text(x, 56, f"{kernel}: {shape}", "t b")
        picture.cells("e", [(x + 24, 90, 330, 330)])
        scale = 330 / 128
        picture.cells("c0", [(x + 24 + round(column * scale, 1), 72, 2.6, 12) for column in columns])
        picture.cells("c2", [(x + 6, 90 + round(row * scale, 1), 12, 2.6) for row in rows])
        picture.cells("c1", [(x + 24 + round(column * scale, 1), 90 + round(row * scale, 1), 2.6, 2.6)
                             for row, column in mine])
        picture.text(x + 24, 440,
                     f"{len(rows)} numbers of A + {len(columns)} of B = {len(rows) + len(columns)} read at each k", "t")
        picture.text(x + 24, 458, f"for {len(mine)} sums of the warp", "m")
        x += 410
    picture.legend(44, 484, [("c1", "the warp's sums in the tile of C"), ("c2", "rows of A it reads"),
                             ("c0", "columns of B it reads")])
    return picture


def waves(picture, y, says, launches, processors, longest, height):
    """How long each multiprocessor is busy; launches are (blocks, what a block costs), one after the other."""
    picture.text(16, y + 12, says, "t b")
    y, scale, end, wave = y + 20, 640 / longest, 0, 0
    picture.cells("e", [(16, y, 640, processors * height)])
    for blocks, cost in launches:
        for first in range(0, blocks, processors):
            picture.cells(views.PLACES[wave % 6], [(round(16 + end * scale, 1), y, round(cost * scale, 1) - 1,
                                                    min(blocks - first, processors) * height)])
            end, wave = end + cost, wave + 1
    picture.text(668, y + 14, f"busy to {end:,.0f}")
    in_use = sum(blocks * cost for blocks, cost in launches) / processors / end
    picture.text(668, y + 30, f"{in_use * 100:.0f} % in use", "m")
    return y + max(processors * height, 36) + 14


def tiles_of_C(picture, x, y, scale, kernel, sizes, processors=8):
    """What each block of a kernel stores of C, in the colour of its wave; (shape of tile, blocks of a tile, tiles) per launch.

    The blocks of a tile lie close to each other, and say their numbers where tiles are large enough."""
    found, wave = [], 0
    for launch in views.traced("02", kernel, sizes):
        shape = (0, 0)
        for i, block in enumerate(launch.blocks):
            stored = views.elements(launch, "store", "C", blocks=[block])
            (top, left), (bottom, right) = min(stored), max(stored)
            views.same((bottom - top + 1) * (right - left + 1), len(stored), f"block {i} of {kernel}")
            height, width = bottom - top + 1, right - left + 1
            shape = max(shape[0], height * launch.cluster[0]), max(shape[1], width)
            gap = 1 if launch.cluster[0] == 1 else 4
            picture.cells(views.PLACES[(wave + i // processors) % 6],
                          [(round(x + left * scale, 1), round(y + top * scale, 1), round(width * scale - gap, 1),
                            round(height * scale - (gap if (i + 1) % launch.cluster[0] == 0 else 1), 1))])
            if scale > 1:
                picture.text(x + left * scale + 6, y + top * scale + 16, f"block {i}", "in s")
        wave += math.ceil(len(launch.blocks) / processors)
        found.append((shape, launch.cluster[0], len(launch.blocks) // launch.cluster[0]))
    return found


def picture_02_sgemm_cluster_rest():
    picture = svg.Picture("sgemm_cluster: large tiles inside, small ones for the rest",
                          "C is cut in two: a launch of large tiles that lie inside, and one of small tiles beside and below them.")
    sizes, found = "--m 552 --n 592 --k 32", {}
    for x, kernel in ((16, "scheduled"), (290, "sgemm"), (564, "sgemm_cluster")):
        found[kernel] = tiles_of_C(picture, x, 70, 0.42, kernel, sizes)
        picture.text(x, 58, kernel, "t b")
    picture.text(16, 320, "C = 552 x 592. A rectangle: the tile of a block. Its colour: the round in which the block runs, as below.", "m")
    y = 338
    for kernel, launches in found.items():
        y = waves(picture, y,
                  f"{kernel}: " + ", then ".join(f"{tiles} tiles of {shape[0]} x {shape[1]}" for shape, _, tiles in launches),
                  [(tiles * blocks, math.prod(shape) / blocks * (0.93 if shape == (128, 256) else 1))
                   for shape, blocks, tiles in launches], 8, 61000, 6)
    picture.text(16, y + 4, "From top to bottom: the CPU backend's 8 multiprocessors. To the right: time, in multiply-adds per k", "m")
    picture.text(16, y + 20, "(a tile of 128 x 256 counts 0.93 times its elements, as in the launcher).", "m")
    return picture
