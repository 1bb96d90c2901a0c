"""Step 01: what a request moves, and which lines a warp touches."""
import maps
import svg
import views

# Speeds that the lesson's table of measurements compares (report.py).
RATIOS = [("coalesced", "uncoalesced"), ("coalesced", "cublas")]

SIZES = "--m 256 --n 256 --k 64"


def one_step(kernel, title, says):
    launch, = views.traced("01", kernel, SIZES, 0, 0)
    picture = svg.Picture(title, says)
    views.requests(picture, *((launch, views.accesses(launch, "load", array, warp=0)[0],
                               f"The load of {what} by warp 0 of block 0, at k = 0")
                              for array, what in (("A", "A[row][k]"), ("B", "B[k][col]"))),
                   (launch, views.accesses(launch, "store", "C", warp=0)[0], "Its store to C[row][col]"))
    return picture


def picture_01_map():
    return maps.opening("01", "coalesced", "--m 64 --n 64 --k 32", "C", ("A", "B"))


def picture_01_uncoalesced():
    return one_step("uncoalesced", "uncoalesced: which lanes share a sector?",
                    "Each of 32 lanes wants a word of A in a sector of its own; B is one word for all lanes.")


def picture_01_coalesced():
    return one_step("coalesced", "coalesced: which lanes share a sector?",
                    "A is one word for all lanes; eight neighbouring lanes share each sector of B.")


def picture_01_lines():
    picture = svg.Picture("Which 128-byte lines does a warp touch as k advances?",
                          "Over 16 steps of k one kernel touches 33 lines at each step, the other two.")
    y = 44
    for kernel in ("uncoalesced", "coalesced"):
        launch, = views.traced("01", kernel, SIZES, 0, 0)
        begin = {name: array.begin for (_, name), array in launch.arrays.items()}
        steps = []
        loads = views.accesses(launch, "load", warp=0)
        for k in range(16):
            pair = loads[2 * k:2 * k + 2]
            steps.append({(event["at"][0][0], (begin[a] + byte) // 128) for event in pair
                          for a, byte in views.traces.places(event["at"])})
            views.same(len(steps[-1]), sum(event["lines"] for event in pair), kernel)
        sectors = sum(event["sectors"] for event in loads[:2])
        order = sorted(set().union(*steps))
        picture.text(16, y + 12, f"{kernel}: {len(steps[0])} lines at each step, {sectors} sectors", "t b")
        y += 22
        height = 6
        for i, line in enumerate(order):
            picture.cells("e", [(90, y + i * height, 40 * 16, height - 1)])
            picture.cells("c0" if line[0] == "A" else "c1",
                          [(90 + 40 * k, y + i * height, 38, height - 1) for k, some in enumerate(steps)
                           if line in some])
        for name in "AB":
            some = [i for i, line in enumerate(order) if line[0] == name]
            picture.text(80, y + (some[0] + some[-1] + 1) / 2 * height + 5, f"{len(some)} of {name}", "m", "end")
        y += len(order) * height
        for k in range(16):
            picture.text(109 + 40 * k, y + 14, f"k={k}" if k == 0 else k, "m s", "middle")
        new = [len(steps[k] - (steps[k - 1] if k else set())) for k in range(16)]
        picture.text(90, y + 32,
                     f"New lines: {new[0]} at k = 0, then {new[1]} a step. Lines to look up: {len(steps[1])} a step, "
                     f"{sum(map(len, steps))} in 16 steps.")
        y += 52
    picture.legend(90, y + 4, [("c0", "a line of A"), ("c1", "a line of B")])
    picture.text(330, y + 4, "one row is one line of 128 bytes, one column one step of k", "m")
    return picture
