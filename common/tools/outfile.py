"""Results that a person asked for: a file appears whole or not at all, and never over what git tracks.

    outfile.writable(path)      raises Refused where no result may be written; called before the work is done
    outfile.write(path, text)   writes it beside, then renames it
    outfile.told(main)          runs a program's main(arguments); what is Refused is one sentence and exit status 2
"""
import os
import pathlib
import subprocess
import sys


class Refused(Exception):
    """Says what the caller cannot have, and why."""


def tracked(path):
    """Says whether git tracks the file. Where there is no git, nothing is tracked."""
    try:
        command = ["git", "-C", path.parent, "ls-files", "--error-unmatch", "--", path.name]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def writable(path):
    path = pathlib.Path(path)
    if path.is_dir():
        raise Refused(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise Refused(f"{path} cannot be written: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Refused(f"{path} cannot be written: permission denied")
    if tracked(path.resolve()):
        raise Refused(f"{path} is a file of the project, which git tracks; choose another name")


def write(path, text):
    """Writes a text, or bytes. A pipe or a device is written to as it is."""
    path = pathlib.Path(path)
    data = text.encode() if isinstance(text, str) else text
    special = path.exists() and not path.is_file()
    beside = path if special else path.with_name(f"{path.name}.{os.getpid()}")
    try:
        try:
            beside.write_bytes(data)
            if not special:
                beside.replace(path)
        finally:
            if not special:
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
