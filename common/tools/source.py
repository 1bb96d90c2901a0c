"""Reading C, C++ and CUDA as text: where comments and strings are, what the tokens are, where a bracket ends.

Every tool that looks into a source does it with these. Python's standard library suffices.
"""
import re

STRING = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
DIRECTIVE = r"(?<![^\n])[ \t]*#(?:\\\n|[^\n])*"  # a line of the preprocessor with those that continue it
NUMBER = r"\.?\d(?:[eE][+-]|[\w.])*"
OPERATORS = r"<<<|>>>|<<=|>>=|->|\+\+|--|::|<<|>>|[-+*/%&|^<>=!]=|&&|\|\|"
TOKEN = re.compile(rf"{STRING}|{NUMBER}|\w+|{OPERATORS}|[^\w\s]")
COMMENT_OR_STRING = re.compile(rf"{STRING}|/\*.*?\*/|//[^\n]*", re.DOTALL)


def blanked(text):
    """As many characters and as many lines, with nothing in them."""
    return re.sub(r"[^\n]", " ", text)


def comments(text):
    """The matches of all comments, in order.

    >>> [match[0] for match in comments('f("//"); // a /* b\\n/* c\\n*/ x = \\'"\\'; /* d */')]
    ['// a /* b', '/* c\\n*/', '/* d */']
    """
    return [match for match in COMMENT_OR_STRING.finditer(text) if match[0].startswith("/")]


def without_comments(text):
    """The text with every comment blanked, at the same length.

    >>> without_comments('a("/* no */"); /* one\\ntwo */ b // c')
    'a("/* no */");       \\n       b     '
    """
    return COMMENT_OR_STRING.sub(lambda match: blanked(match[0]) if match[0].startswith("/") else match[0], text)


def without_directives(text):
    """The text with every line of the preprocessor blanked, at the same length.

    >>> without_directives('#define A \\\\\\n  1\\nint x;')
    '           \\n   \\nint x;'
    """
    return re.sub(DIRECTIVE, lambda match: blanked(match[0]), text)


def tokens_of(text):
    """The tokens outside of comments and preprocessor lines, as (text, begin, end).

    >>> [token for token, _, _ in tokens_of('#include "x.h"\\nk<<<1, n>>>(a->b, 1e-3f); // c')]
    ['k', '<<<', '1', ',', 'n', '>>>', '(', 'a', '->', 'b', ',', '1e-3f', ')', ';']
    """
    return [(match[0], match.start(), match.end()) for match in TOKEN.finditer(without_directives(without_comments(text)))]


def behind(code, at):
    """Where it goes on behind the bracket that opened just before `at`; code has no comments.

    >>> code = "f(a[1], {b}); c"
    >>> code[behind(code, 2):]
    '; c'
    """
    depth = 1
    while depth:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(code[at], 0)
        at += 1
    return at
