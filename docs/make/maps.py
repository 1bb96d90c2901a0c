"""The map with which a step opens: who computes which part of the result, from the grid down to a thread; in which order a block
loads what it needs; what travels. All of it is what a trace has."""
import collections

import svg
import views

LANE = 5  # the thread that is shown


def rectangles(places):
    """[(row, column, rows, columns)] of some (row, column), as few as joining rows of the same runs gives.

    >>> rectangles({(0, 0), (0, 1), (1, 0), (1, 1), (3, 1)})
    [(0, 0, 2, 2), (3, 1, 1, 1)]
    """
    rows = collections.defaultdict(list)
    for row, column in places:
        rows[row].append(column)
    runs = collections.defaultdict(list)  # (column, columns): rows
    for row, columns in rows.items():
        columns = set(columns)
        for begin in columns:
            if begin - 1 not in columns:
                end = begin
                while end in columns:
                    end += 1
                runs[begin, end - begin].append(row)
    found = []
    for (column, wide), some in runs.items():
        there = set(some)
        for begin in some:
            if begin - 1 not in there:
                end = begin
                while end in there:
                    end += 1
                found.append((begin, column, end - begin, wide))
    return sorted(found)


class Panel:
    """A part of a matrix, drawn to fit: rows [row, row + rows), columns [column, column + columns)."""

    def __init__(self, picture, x, y, width, height, part):
        self.picture, self.x, self.y = picture, x, y
        self.row, self.column, rows, columns = part
        self.high, self.wide = height / rows, width / columns
        if max(self.high, self.wide) < 8 * min(self.high, self.wide):  # else it is a strip, and is drawn wider than it is
            self.high = self.wide = min(self.high, self.wide)
        self.width, self.height = columns * self.wide, rows * self.high
        picture.cells("e", [(x, y, round(self.width, 1), round(self.height, 1))])

    def fill(self, kind, places, gap=0.0, opacity=1.0):
        self.picture.cells(kind, [(round(self.x + (column - self.column) * self.wide, 1), round(self.y + (row - self.row) * self.high, 1),
                                   round(columns * self.wide - gap, 1), round(rows * self.high - gap, 1))
                                  for row, column, rows, columns in rectangles(places)], opacity)

    def label(self, places, text, kind="in s b"):
        rows, columns = [row for row, _ in places], [column for _, column in places]
        high, wide = (max(rows) - min(rows) + 1) * self.high, (max(columns) - min(columns) + 1) * self.wide
        if high > 11 and wide > 7 * len(str(text)) + 2:
            self.picture.text(round(self.x + (min(columns) - self.column) * self.wide + wide / 2, 1),
                              round(self.y + (min(rows) - self.row) * self.high + high / 2 + 4, 1), text, kind, "middle")


def around(places):
    rows, columns = [row for row, _ in places], [column for _, column in places]
    return min(rows), min(columns), max(rows) - min(rows) + 1, max(columns) - min(columns) + 1


def order_of_loads(block, array, launch):
    """The elements of an array in four groups: which quarter of a warp's loads of it brings them first."""
    first, turn = {}, collections.Counter()
    for event in sorted(block.events, key=lambda event: event["t"]):
        if event["event"] == "load" and event["space"] == "global" and event["at"][0][0] == array:
            for _, row, column in views.touched(launch, event):
                first.setdefault((row, column), turn[event["warp"]])
            turn[event["warp"]] += 1
    last = max(first.values(), default=0) + 1
    return [{place for place, when in first.items() if when * 4 // last == quarter} for quarter in range(4)]


def opening(step, kernel, sizes, out, inputs):
    """The picture of a kernel that stores `out`; `inputs` are the arrays whose order of loads it shows."""
    launch = views.traced(step, kernel, sizes)[-1]
    blocks = {block.number: views.elements(launch, "store", out, blocks=[block]) for block in launch.blocks}
    whole = set().union(*blocks.values())
    extent = launch.arrays["global", out]
    views.same(len(whole) * extent.element_bytes, extent.bytes, f"{kernel}, {out}")
    block = launch.blocks[0]
    warps = {warp: places for warp in range(-(-launch.threads[0] * launch.threads[1] * launch.threads[2] // 32))
             if (places := views.elements(launch, "store", out, warp=warp, blocks=[block]))}
    mine = views.elements(launch, "store", out, LANE, warp=0, blocks=[block])
    picture = svg.Picture(f"Step {step}: from the grid to a thread of {kernel}, at {sizes.replace('--', '')}",
                          f"Which part of {out} a block, a warp and a thread compute, in which order a block loads, and what travels.")
    top = 70
    threads = launch.threads[0] * launch.threads[1] * launch.threads[2]
    titles = (f"grid: {len(blocks)} blocks make {out}", f"block 0: {threads // 32} warps", "warp 0: 32 lanes, and one of them")
    shown = []
    for place, (title, part) in enumerate(zip(titles, (whole, blocks[0], warps[0]))):
        x = 16 + place * 275
        picture.text(x, 56, title, "t b")
        shown.append(Panel(picture, x, top, 235, 150, around(part)))
    grid, inside, one = shown
    for number, places in blocks.items():
        grid.fill("c0" if number == 0 else "c7", places, 1.0)
        grid.label(places, number)
    for warp, places in warps.items():
        inside.fill(views.PLACES[warp % 6], places, 0.5)
        if len(rectangles(places)) == 1:
            inside.label(places, warp)
    one.fill("c0", warps[0] - mine)
    one.fill("c1", mine)
    y = top + 150
    under = (f"{out} is {' × '.join(str(n) for n in extent.shape if n > 1)}", "a colour: a warp" + (", six take turns" if len(warps) > 6 else ""),
             f"orange: thread {LANE}, {len(mine)} element{'s' * (len(mine) > 1)}")
    for place, text in enumerate(under):
        picture.text(16 + place * 275, y + 18, text, "m")
    y += 46
    picture.text(16, y, "What block 0 loads: the earlier in a warp, the stronger", "t b")
    x, below = 16, y
    for array in inputs:
        of = launch.arrays["global", array]
        columns = of.shape[-1]
        panel = Panel(picture, x, y + 30, min(235, 790 / len(inputs) - 24), 110, (0, 0, of.bytes // of.element_bytes // columns, columns))
        for group, opacity in zip(order_of_loads(block, array, launch), (1, 0.72, 0.46, 0.24)):
            if group:
                panel.fill("c0", group, opacity=opacity)
        picture.text(x, y + 22, array, "t k")
        below, x = max(below, y + 30 + panel.height), x + panel.width + 40
    y = round(below) + 28
    moved = views.traffic([launch])
    picture.text(16, y, "Bytes of global memory that all blocks move, by array", "t b")
    bars = [(array, {kind: moved[array, kind] for kind in ("load", "store")}) for array in dict.fromkeys(array for array, _ in moved)]
    y = views.stacked(picture, y + 12, bars, {"load": "c0", "store": "c1"}, label_width=120)
    picture.legend(120, y + 12, [("c0", "loaded"), ("c1", "stored")])
    return picture
