"""A picture as SVG: light and dark, still and moving, the same bytes each time.

Shapes of one class are one path, which keeps a map of thousands of cells small. Classes are colours: c0 to c7 stand for
things (a tile, a warp, an array), t and m are text, g thin lines, w walls, e the empty cell.
"""
import re
from xml.sax.saxutils import escape

WIDTH = 830
CONTRAST = 4.5  # of text to what is behind it, at least (WCAG 2.2, 1.4.3)
LETTER = 5.7  # pixels that one of 13 is wide in a sentence, at least
STYLE = """text{font:13px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
.b{font-weight:600}.h{font-size:15px;font-weight:600}.s{font-size:11px}.k{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:12px}
.bg{fill:#fff}.t{fill:#1f2328}.m{fill:#59636e}.e{fill:#eceff2}.g{stroke:#c4cbd3;fill:none}.w{stroke:#1f2328;fill:none;stroke-width:2}
.ow{stroke:#1f2328;fill:none;stroke-width:1.3}.in{fill:#0b0f14}
"""
DARK = """.bg{fill:#0d1117}.t{fill:#e6edf3}.m{fill:#9da4ad}.e{fill:#2b323b}.g{stroke:#484f58}.w,.ow{stroke:#e6edf3}
"""
# Near Okabe and Ito's colours, told apart by everyone. Text on them is of class in, and they are seen on white and on black.
COLOURS = ["#3f8fd2", "#d48a00", "#159e73", "#d55e00", "#b267a0", "#3fa3dc", "#a89a00", "#8a8f98"]
STYLE += "".join(f".c{i}{{fill:{colour}}}.l{i}{{stroke:{colour};fill:none;stroke-width:1.6}}"
                 for i, colour in enumerate(COLOURS)) + ".r{stroke-width:.7}\n"


def fills(style):
    """{class: (red, green, blue)} of what a style fills."""
    found = re.findall(r"\.(\w+)\{fill:#(\w+)\}", style)
    return {name: tuple(int(digits[i] * 2 if len(digits) == 3 else digits[2 * i:2 * i + 2], 16) for i in range(3)) for name, digits in found}


FILLS = {"light": fills(STYLE), "dark": fills(STYLE) | fills(DARK)}


def contrast(one, other):
    """Returns the ratio of two colours' luminances by WCAG's definition, 1 to 21."""
    def luminance(colour):
        linear = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def short(number):
    return f"{number:.1f}".rstrip("0").rstrip(".") if isinstance(number, float) else str(number)


class Picture:
    def __init__(self, title, says):
        """title stands above the picture, says is what a screen reader reads."""
        self.title, self.says, self.parts, self.height, self.frames, self.seconds = title, says, [], 0, 0, 0
        self.moment, self.painted, self.faults = None, [], []  # painted: (moment, x, y, width, height, class, opacity)
        self.text(16, 26, title, "t h")

    def down_to(self, y):
        self.height = max(self.height, y)

    def text(self, x, y, words, kind="t", anchor=""):
        self.down_to(y + 10)
        if not anchor and x + LETTER * len(str(words)) > WIDTH and " s" not in kind:
            self.faults.append(f"{words!r} is cut off at the right")
        self.look_at(x, y, str(words), kind.split()[0], anchor)
        anchor = f' text-anchor="{anchor}"' if anchor else ""
        self.parts.append(f'<text x="{short(x)}" y="{short(y)}" class="{kind}"{anchor}>{escape(str(words))}</text>')

    def look_at(self, x, y, words, kind, anchor):
        """Notes words that can't be told from what lies behind their middle."""
        x += {"": 4 if len(words) > 1 else 3, "middle": 0, "end": -4}[anchor]
        for scheme, fill in FILLS.items():
            behind = fill["bg"]
            for moment, left, top, width, height, painted, opacity in self.painted:
                if moment in (None, self.moment) and left <= x <= left + width and top <= y - 4 <= top + height:
                    behind = tuple(over * opacity + under * (1 - opacity) for over, under in zip(fill[painted], behind))
            ratio = contrast(fill[kind], behind)
            if ratio < CONTRAST:
                self.faults.append(f"{words!r} in the {scheme} has {ratio:.2f} of contrast, less than {CONTRAST}")

    def path(self, kind, steps, extra=""):
        self.parts.append(f'<path class="{kind}" d="{steps}"{extra}/>')

    def cells(self, kind, cells, opacity=1.0):
        """Rectangles (x, y, width, height) of one class; neighbours in a row become one."""
        joined = []
        for x, y, width, height in sorted(set(cells), key=lambda cell: (cell[1], cell[3], cell[0])):
            if joined and joined[-1][1] == y and joined[-1][3] == height and abs(joined[-1][0] + joined[-1][2] - x) < 0.01:
                joined[-1][2] += width
            else:
                joined.append([x, y, width, height])
        for x, y, width, height in joined:
            self.down_to(y + height)
            self.painted += [(self.moment, x, y, width, height, kind, opacity)] if kind in FILLS["light"] else []
        steps = "".join(f"M{short(x)} {short(y)}h{short(w)}v{short(h)}h{short(-w)}z" for x, y, w, h in joined)
        if steps:
            self.path(kind, steps, f' fill-opacity="{opacity:.2f}"' if opacity < 1 else "")

    def lines(self, kind, ends):
        """Straight lines (x1, y1, x2, y2) of one class."""
        for end in ends:
            self.down_to(max(end[1], end[3]))
        self.path(kind, "".join(f"M{short(a)} {short(b)}L{short(c)} {short(d)}" for a, b, c, d in ends))

    def arrow(self, kind, x1, y1, x2, y2):
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1
        ux, uy = (x2 - x1) / length * 7, (y2 - y1) / length * 7
        self.lines(kind, [(x1, y1, x2, y2), (x2 - ux - uy / 2, y2 - uy + ux / 2, x2, y2),
                          (x2 - ux + uy / 2, y2 - uy - ux / 2, x2, y2)])

    def grid(self, x, y, columns, rows, width, height):
        """The lines of a table of cells."""
        self.lines("g", [(x, y + i * height, x + columns * width, y + i * height) for i in range(rows + 1)] +
                   [(x + j * width, y, x + j * width, y + rows * height) for j in range(columns + 1)])

    def frame(self, number, count, seconds, still):
        """Shows what is drawn from here to done() in one of count moments; still is the one that stays without motion."""
        self.frames, self.seconds, self.moment = count, seconds, number
        delay = short(number * seconds / count - seconds)
        self.parts.append(f'<g class="f{" still" if number == still else ""}" style="animation-delay:{delay}s">')

    def done(self):
        self.moment = None
        self.parts.append("</g>")

    def legend(self, x, y, entries):
        for kind, words in entries:
            self.cells(kind, [(x, y - 10, 12, 12)])
            self.text(x + 17, y, words, "m")
            x += 17 + 7.4 * len(words) + 16

    def svg(self):
        style = STYLE + "@media (prefers-color-scheme:dark){" + DARK + "}\n"
        if self.frames:
            style += (f".f{{opacity:0;animation:f {short(self.seconds)}s step-end infinite}}.still{{opacity:1}}"
                      f"@keyframes f{{0%{{opacity:1}}{100 / self.frames:.3f}%,100%{{opacity:0}}}}"
                      "@media (prefers-reduced-motion:reduce){.f{animation:none}}\n")
        height = int(self.height + 12)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
                f'role="img"><title>{escape(self.title)}</title><desc>{escape(self.says)}</desc><style>{style}</style>\n'
                f'<rect class="bg" width="{WIDTH}" height="{height}" rx="8"/>\n' + "\n".join(self.parts) + "\n</svg>\n")
