"""How Sphinx makes the book of the pages that book.py writes. Nothing is fetched when a page is opened."""
import re

import latex2mathml.converter
from docutils import nodes

project = "FlashAttention, step by step"
html_title = project
extensions = ["myst_parser"]
myst_heading_anchors = 6
myst_fence_as_directive = ["math"]
exclude_patterns = ["show"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_show_sphinx = html_show_copyright = html_show_sourcelink = html_copy_source = html_use_index = False
html_show_search_summary = False  # a browser that reads from disk may not fetch the pages found
highlight_language = "text"  # a fence without a word is what a terminal shows
pygments_style, pygments_dark_style = "a11y-light", "a11y-dark"


def formula(self, node):
    """Writes a formula as MathML, which browsers draw themselves."""
    text = node.astext()
    for row in filter(None, text.split("\n\n")):
        self.body.append(f'<div class="formula" tabindex="0" role="math">{latex2mathml.converter.convert(row, display="block")}</div>')
    raise nodes.SkipNode


def formula_in_line(self, node):
    self.body.append(latex2mathml.converter.convert(node.astext()))
    raise nodes.SkipNode


def named(app, page, template, context, doctree):
    """Gives what the theme writes the levels and cells that assistive technology asks for."""
    tree = context.get("furo_navigation_tree", "").replace('role="heading"', 'role="heading" aria-level="2"')
    # A source is opened from a page that has the tree, which would be a quarter of the book if sources had it, too.
    context["furo_navigation_tree"] = "" if "." in page.rsplit("/", 1)[-1] else tree
    body = re.sub(r'<th class="([^"]*)">(<p></p>)?</th>', r'<td class="\1"></td>', context.get("body", ""))
    # Names, punctuation and spaces have a source's own colour. Marked one by one they would be a sixth of the book.
    context["body"] = re.sub('<span class="[npw]">([^<]*)</span>', r"\1", body)


def setup(app):
    app.connect("html-page-context", named, priority=900)
    app.add_html_math_renderer("mathml", inline_renderers=(formula_in_line, None), block_renderers=(formula, None))


html_math_renderer = "mathml"
