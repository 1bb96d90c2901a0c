#!/usr/bin/env python3
"""The pictures of the lessons, docs/pictures/*.svg, drawn from traces of the checked build's kernels as they are.

    docs/make/pictures.py make [NAME...]     draws them (those whose name begins with NAME)
    docs/make/pictures.py check [NAME...]    fails when one is not what the kernels would draw now
"""
import concurrent.futures
import pathlib

import views
import outfile  # views has set its path

FOLDER = views.ROOT / "docs" / "pictures"
LIMIT = 40_000  # bytes, of one picture


def drawn(module, names):
    """(name, picture) for the pictures of draw_NN.py, each a function that is named as its file."""
    return [(name.removeprefix("picture_"), draw()) for name, draw in vars(__import__(module)).items()
            if name.startswith("picture_") and name.removeprefix("picture_").startswith(tuple(names or [""]))]


def main(arguments):
    command, names = arguments[0] if arguments else "", arguments[1:]
    if command not in ("make", "check"):
        raise outfile.Refused(__doc__)
    wrong, there = [], {path.name for path in FOLDER.glob("*.svg")}
    FOLDER.mkdir(exist_ok=True)
    modules = sorted(path.stem for path in pathlib.Path(__file__).parent.glob("draw_*.py"))
    with concurrent.futures.ProcessPoolExecutor() as processes:
        pictures = [picture for some in processes.map(drawn, modules, [names] * len(modules)) for picture in some]
    for name, picture in pictures:
        text = picture.svg()
        path = FOLDER / f"{name}.svg"
        there.discard(path.name)
        if len(text) > LIMIT:
            wrong.append(f"{path.name} has {len(text)} bytes, more than {LIMIT}")
        wrong += [f"{path.name}: {fault} ({len(picture.faults)} such)" for fault in picture.faults[:1]]
        if command == "make":
            outfile.write(path, text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(f"docs/pictures/{path.name} is not what the kernels draw now: make pictures")
    wrong += [f"docs/pictures/{name} is drawn by no function" for name in sorted(there) if not names]
    print("\n".join(wrong) or "pictures: all " + ("drawn now" if command == "make" else "as the kernels draw them"))
    return 1 if wrong else 0


if __name__ == "__main__":
    outfile.told(main)
