"""Step 03: sweeps over a row, the running maximum, who owns which part of a row."""
import collections
import math

import maps
import svg
import traces
import views

# Speeds that the lesson's table of measurements compares (report.py).
RATIOS = [("online_cluster", peer) for peer in ("copy", "cudnn", "torch_softmax")]


def picture_03_map():
    return maps.opening("03", "online_registers", "--rows 16 --cols 1024", "output", ("input",))


def picture_03_sweeps():
    picture = svg.Picture("How often is a row read? Its columns from top to bottom, time from left to right",
                          "three_pass reads a row three times, online twice, online_registers once.")
    y = 44
    for i, (kernel, sizes, columns) in enumerate((("three_pass", "--rows 32 --cols 64", 64),
                                                  ("online", "--rows 32 --cols 64", 64),
                                                  ("online_block", "--rows 1 --cols 4096", 4096),
                                                  ("online_registers", "--rows 1 --cols 4096", 4096))):
        launch, = views.traced("03", kernel, sizes)
        below = views.sweeps(picture, 16 + i % 2 * 405, y, 390, 64, launch, 0, f"{kernel}, {columns} columns", columns)
        y = below + 8 if i % 2 else y
    picture.legend(16, y + 8, [("c0", "columns loaded"), ("c1", "columns stored")])
    picture.text(340, y + 8, "from left to right: the requests of a warp in their order", "m")
    return picture


def picture_03_online():
    row = [1, 3, 2, 0, 4, 3.5, 1.5, 3]
    picture = svg.Picture("online: what happens to the sum when a new maximum comes?",
                          "Each number adds a bar e^(x - m); when the maximum rises, all bars shrink by one factor.")
    states, m, total = [], -math.inf, 0.0
    for x in row:
        rises = x > m
        factor = math.exp(m - max(m, x)) if m > -math.inf else 0.0
        m, total = max(m, x), total * factor + math.exp(x - max(m, x))
        states.append((m, total, factor, rises))
    width, base, scale = 60, 270, 190
    picture.lines("g", [(40, base, 40 + len(row) * width, base),
                        (40, base - scale, 40 + len(row) * width, base - scale)])
    picture.text(34, base - scale + 4, "1", "m", "end")
    for i, x in enumerate(row):
        picture.text(40 + (i + 0.5) * width, base + 18, f"x = {svg.short(x)}", "m", "middle")
    for number, (m, total, factor, rises) in enumerate(states):
        picture.frame(number, len(row), 1.5 * len(row), 4)
        picture.cells("c1", [(40 + i * width + 8, round(base - scale * math.exp(row[i] - m), 1), width - 16,
                              round(scale * math.exp(row[i] - m), 1))
                             for i in range(number + 1) if row[i] == m])
        picture.cells("c0", [(40 + i * width + 8, round(base - scale * math.exp(row[i] - m), 1), width - 16,
                              round(scale * math.exp(row[i] - m), 1))
                             for i in range(number + 1) if row[i] != m])
        if rises and number:
            old = states[number - 1][0]
            picture.lines("w", [(40 + i * width + 8, round(base - scale * math.exp(row[i] - old), 1),
                                 40 + i * width + width - 8,
                                 round(base - scale * math.exp(row[i] - old), 1)) for i in range(number)])
        picture.text(560, 90, f"after x = {svg.short(row[number])}", "t h")
        picture.text(560, 116, f"m = {svg.short(m)}", "t k")
        picture.text(560, 136, f"l = {total:.3f}, the bars together", "t k")
        picture.text(560, 166, "a new maximum: all bars shrink" if rises and number else "the maximum stays"
                     if number else "the first number")
        if rises and number:
            picture.text(560, 184, f"by e^(m_old - m) = {factor:.3f}")
            picture.text(560, 202, "(lines: how high they were)", "m")
        picture.done()
    picture.legend(40, base + 48, [("c0", "e^(x - m)"), ("c1", "the maximum itself: e^0 = 1")])
    return picture


def picture_03_online_warp():
    launch, = views.traced("03", "online_warp", "--rows 32 --cols 4096", 0, 0)
    picture = svg.Picture("online_warp: a row is 32 neighbours at a time; then shuffles merge 32 states",
                          "A request touches four sectors; in five rounds every lane comes to know the state of all 32.")
    y = views.request(picture, 40, launch, views.accesses(launch, warp=0)[0],
                      "The first load of warp 0: columns 0 to 31 of one row")
    shuffles = collections.Counter(event["line"].rsplit(":", 1)[1] for event in launch.blocks[0].events
                                   if event["event"] == "warp")
    rounds = set(shuffles.values()).pop()
    views.same(2 ** rounds, 32, "rounds of shuffles")
    picture.text(16, y + 16, f"Whose numbers does lane 5 know after each of {rounds} rounds of shuffles?", "t b")
    picture.text(16, y + 32,
                 f"First all lanes merge their maxima so; each brings its sum to the common maximum; {rounds} more rounds add the sums.", "m")
    y += 46
    lane, known = 5, {5}
    for round_ in range(rounds + 1):
        picture.text(16, y + 14, "alone" if not round_ else f"xor {32 >> round_}", "m s")
        x = [58 + i * 23.4 for i in range(32)]
        picture.cells("e", [(x[i], y, 21, 18) for i in range(32)])
        picture.cells("c0", [(x[i], y, 21, 18) for i in known])
        picture.cells("c1", [(x[lane], y, 21, 18)])
        for i in range(32):
            picture.text(x[i] + 10.5, y + 13, i, "in s" if i in known else "m s", "middle")
        if round_ < rounds:
            distance = 16 >> round_
            picture.lines("g", [(x[i] + 10.5, y + 19, x[i ^ distance] + 10.5, y + 39) for i in range(32)])
            picture.arrow("ow", x[lane ^ distance] + 10.5, y + 19, x[lane] + 10.5, y + 39)
            known = known | {i ^ distance for i in known}
        y += 40
    picture.text(58, y, "Grey: all lanes exchange at the same time, so each of them ends with the state of the row.",
                 "m")
    return picture


def picture_03_online_block():
    launch, = views.traced("03", "online_block", "--rows 1 --cols 4096")
    picture = svg.Picture("online_block: who owns which columns, and how do the warps' states meet?",
                          "Warps take 32 columns each in turn; each stores its state, and after one barrier all read all states.")
    owner = {column: event["warp"] for event in views.accesses(launch) for _, _, column in views.touched(launch, event)}
    warps = launch.threads[0] // 32
    picture.text(16, 58, f"the row, {warps * 32} columns in a line: warps 0 to {warps - 1}", "t b")
    views.same(all(owner[column] == column // 32 % warps for column in owner), True, "who owns a column")
    for warp in range(warps):
        picture.cells(views.PLACES[warp % 6], [(16 + warp * 100, 68 + line * 6, 98, 5)
                                               for line in range(4096 // 32 // warps)])
        picture.text(66 + warp * 100, 68 + 4096 // 32 // warps * 6 + 14, warp, "m", "middle")
    writes, reads = (views.accesses(launch, kind, None, "shared") for kind in ("store", "load"))
    barriers = sum(event["event"] == "barrier" for event in launch.blocks[0].events)
    cells = {place for event in writes for place in traces.places(event["at"])}
    views.same(sum(event["wavefronts"] for event in reads + writes), launch.counters["shared_wavefronts"],
               "online_block")
    x = 460
    picture.text(x, 90, f"{warps} warps store m and l: {len(cells)} cells of shared memory")
    for warp in range(warps):
        picture.cells(views.PLACES[warp % 6], [(x + warp * 84, 102, 39, 22), (x + warp * 84 + 40, 102, 39, 22)])
        picture.text(x + warp * 84 + 19.5, 118, "m", "in s", "middle")
        picture.text(x + warp * 84 + 59.5, 118, "l", "in s", "middle")
    picture.lines("w", [(x, 150, x + 336, 150)])
    picture.text(x, 170, f"{barriers} barrier: no warp reads before all have stored", "m")
    for warp in range(warps):
        picture.arrow("ow", x + 168, 186, x + warp * 84 + 39, 224)
        picture.cells("e", [(x + warp * 84, 226, 79, 22)])
        picture.text(x + warp * 84 + 39, 242, "M, L", "t s", "middle")
    picture.text(x, 268, "each warp reads all of them and merges:")
    picture.text(x, 286,
                 f"{sum(event['wavefronts'] for event in writes)} wavefronts for the stores, {sum(event['wavefronts'] for event in reads)} for the reads", "m")
    return picture
