"""Reading C, C++ and CUDA as text: where comments and strings are, what the tokens are, where a bracket ends, which files a
source is made of.

Every tool that looks into a source does it with these. Python's standard library suffices.
"""
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
LADDERS = ("", "limit/", "hopper/", "decode/", "backward/", "variants/")  # the core ladder is in the step's own folder

# These read like the compiler's preprocessor, and like common/simt/translate.cpp; tests/tools/test_labs.py compares them. What is
# not closed goes on to the end of its line or of the text, so that no text is read again and again.
NAME = r"(?:[^\W\d]|\$|\\(?=[uU]))(?:\w|\$|\\(?=[uU]))*"
RAW_STRING = r'(?<![\w$\\])(?:u8|[uUL])?R"(?P<{0}>[^()\\\s]{{0,16}})\((?s:.*?)(?:\)(?P={0})"|\Z)'
QUOTED = r'"(?:\\[\s\S]|[^"\\\n])*"?|\'(?:\\[\s\S]|[^\'\\\n])*\'?'
STRING = rf"(?:(?<![\w$\\])(?:u8|[uUL]))?(?:{QUOTED})"
DIRECTIVE = r"(?<![^\n])[ \t]*#(?:\\\n|[^\n])*"  # a line of the preprocessor with its continuation
NUMBER = r"\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.$]|\\(?=[uU]))*"
OPERATORS = r"<<<|>>>|<<=|>>=|->|\+\+|--|::|<<|>>|[-+*/%&|^<>=!]=|&&|\|\|"
TOKEN = re.compile(rf"(?:{RAW_STRING.format('end')}|{STRING})(?:{NAME})?|{NUMBER}|{NAME}|{OPERATORS}|[^\w\s]")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
COMMENT_OR_STRING = re.compile(rf"{RAW_STRING.format('end')}|{STRING}|{NUMBER}|{NAME}|(?P<comment>/\*.*?(?:\*/|\Z)|//(?:\\\n|[^\n])*)", re.DOTALL)


def blanked(text):
    """Returns as many characters and lines, all blank."""
    return re.sub(r"[^\n]", " ", text)


def comments(text):
    """Returns the matches of all comments, in order.

    >>> [match[0] for match in comments('f("//"); // a /* b\\n/* c\\n*/ x = \\'"\\'; /* d */')]
    ['// a /* b', '/* c\\n*/', '/* d */']
    >>> [match[0] for match in comments('R"(/*)"; x$R"/*"; 1\\'0; // a \\\\\\n b')]
    ['// a \\\\\\n b']
    """
    return [match for match in COMMENT_OR_STRING.finditer(text) if match["comment"]]


def without_comments(text):
    """Returns the text with every comment blanked, at the same length.

    >>> without_comments('a("/* no */"); /* one\\ntwo */ b // c')
    'a("/* no */");       \\n       b     '
    """
    return COMMENT_OR_STRING.sub(lambda match: blanked(match[0]) if match["comment"] else match[0], text)


def without_directives(text):
    """Returns the text with every line of the preprocessor blanked, at the same length.

    >>> without_directives('#define A \\\\\\n  1\\nint x;')
    '           \\n   \\nint x;'
    """
    return re.sub(DIRECTIVE, lambda match: blanked(match[0]), text)


def tokens_of(text):
    """Returns the tokens outside comments and preprocessor lines, as (text, begin, end).

    >>> [token for token, _, _ in tokens_of('#include "x.h"\\nk<<<1, n>>>(a->b, 1e-3f); // c')]
    ['k', '<<<', '1', ',', 'n', '>>>', '(', 'a', '->', 'b', ',', '1e-3f', ')', ';']
    """
    return [(match[0], match.start(), match.end()) for match in TOKEN.finditer(without_directives(without_comments(text)))]


def behind(code, at):
    """Returns the place behind the bracket that opened just before `at`. The code must have no comments.

    >>> code = "f(a[1], {b}); c"
    >>> code[behind(code, 2):]
    '; c'
    """
    depth = 1
    while depth:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(code[at], 0)
        at += 1
    return at


def of_steps(pattern, step="0?_*"):
    """Returns the files of steps whose names match, sorted: those in a step's own folder and in the folders of its ladders.

    >>> [path.name for path in of_steps("*_sgemm.cu")], [path.name for path in of_steps("2_*.cu", "03_*")]
    (['12_sgemm.cu'], ['2_online.cu'])
    """
    return sorted(path for ladder in LADDERS for path in ROOT.glob(f"{step}/{ladder}{pattern}"))


def lesson_of(kernel):
    """Returns the page that tells of a kernel's file: its ladder's, or its step's where the ladder has none.

    >>> lesson_of(ROOT / "01_naive_matmul/2_coalesced.cu").relative_to(ROOT).as_posix()
    '01_naive_matmul/README.md'
    """
    beside = kernel.parent / "README.md"
    return beside if beside.exists() else ROOT / kernel.relative_to(ROOT).parts[0] / "README.md"


FENCE = re.compile(r"^```.*?^```[^\n]*$", re.S | re.M)  # in Markdown
MOMENT = re.compile(r"`make show-(\d\d) KERNEL=(\w+|\"\w+ \w+\")(?: AT='([^'`]*)')?`")  # in a lesson, the command that opens a run


def headings(lines):
    """Returns (line, depth, title, name in links) of each heading of a Markdown text, named as GitHub does.

    >>> headings(["# A `b`: c", "```", "# no", "```", "## [D](e) f", "## D f"])
    [(0, 1, 'A `b`: c', 'a-b-c'), (4, 2, 'D f', 'd-f'), (5, 2, 'D f', 'd-f-1')]
    """
    found, names = [], set()
    for at, line in enumerate(FENCE.sub(lambda match: blanked(match[0]), "\n".join(lines)).split("\n")):
        heading = re.fullmatch(r"(#+) (.*?)\s*", line)
        if heading:
            title = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[2])
            name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            name = name if name not in names else f"{name}-1"
            names.add(name)
            found.append((at, len(heading[1]), title, name))
    return found


def resolved(path, name):
    """Returns the file that a source includes as "name": beside it, or relative to common/, the root or common/simt/."""
    for folder in (path.parent, ROOT / "common", ROOT, ROOT / "common/simt"):
        if (folder / name).is_file():
            return (folder / name).resolve()
    raise LookupError(f"{path.relative_to(ROOT)} includes {name}, which is nowhere")


@functools.lru_cache(maxsize=None)
def included(path):
    """Returns the project's files that a source itself includes, in its order."""
    return [resolved(path, name) for name in INCLUDE.findall(without_comments(path.read_text("utf-8")))]


def closure(path, enter=lambda header: True):
    """Returns everything that a source includes at any depth, each after what it includes itself. Files that `enter` refuses are
    left out."""
    found, seen = [], {path}

    def visit(source):
        for header in included(source):
            if header not in seen and enter(header):
                seen.add(header)
                visit(header)
                found.append(header)
    visit(path)
    return found
