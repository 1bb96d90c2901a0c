"""Results that a person asked for: a file appears whole or not at all, and never over what git tracks.

    outfile.writable(path)      raises Refused where no result may be written; called before the work is done
    outfile.cleared(path)       the same, and removes an older result
    outfile.write(path, text)   writes it beside, then renames it
    outfile.told(main)          runs a program's main(arguments); what is Refused is one sentence and exit status 2
"""
import os
import pathlib
import secrets
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Refused(Exception):
    """Says what the caller cannot have, and why."""


def tracked(path):
    """Says whether the project's own git tracks the file. No other is asked: the configuration of a repository names programs, and
    git runs them. Where there is no git, nothing is tracked."""
    here = path.parent.resolve() / path.name  # a link is replaced, and not what it leads to
    if not here.is_relative_to(ROOT):
        return False
    try:
        command = ["git", "-C", ROOT, "-c", "core.fsmonitor=false", "ls-files", "--error-unmatch", "--", here.relative_to(ROOT)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def special(path):
    """Says whether this is a pipe or a device, which is written to as it is; /dev/stdout is one, whatever it leads to."""
    return path.exists() and (not path.is_file() or path.absolute().parts[1] in ("dev", "proc"))


def named(path):
    """Returns the path of a file that may be replaced, whoever may write to it."""
    path = pathlib.Path(path)
    if path.is_dir():
        raise Refused(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise Refused(f"{path} cannot be written: there is no folder {path.parent}")
    if tracked(path):
        raise Refused(f"{path} is a file of the project, which git tracks; choose another name")
    return path


def permitted(path):
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Refused(f"{path} cannot be written: permission denied")


def writable(path):
    permitted(named(path))


def cleared(path):
    """What lies there, from an earlier run or from somebody else, must not pass for a result if this run ends without one."""
    path = named(path)
    if not special(path):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise Refused(f"{path} cannot be removed: {error.strerror.lower()}") from None
    permitted(path)


def write(path, text):
    """Writes a text, or bytes."""
    path = pathlib.Path(path)
    data = text.encode() if isinstance(text, str) else text
    try:
        if special(path):
            path.write_bytes(data)
            return
        beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        file = open(beside, "xb")  # never through a link, nor into a file that somebody has put there
        try:
            with file:
                file.write(data)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror.lower()}") from None


def told(main):
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except Refused as refused:
        print(refused, file=sys.stderr)
        status = 2
    except OSError as error:
        print(f"{error.filename or 'standard output'}: {error.strerror.lower()}", file=sys.stderr)
        status = 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left to print would fail once more
    sys.exit(status)
