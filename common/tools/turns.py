"""Commands that build in the same folder take turns, in however many makes.

    with turns.of(folder):      waits while another command has the folder, and says so
"""
import contextlib
import fcntl
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
told = set()  # which folders' parents: of many in a row one is enough


@contextlib.contextmanager
def of(folder):
    """The lock lies beside the folder, which may be made anew, and stays: removed, it would not be the others' lock."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f"{folder.name}.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if folder.parent not in told:
                told.add(folder.parent)
                print(f"another command has {folder.relative_to(ROOT)}.lock; this one waits for it", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
