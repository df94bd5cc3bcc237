"""Sphinx extension: what the printed book needs and the site does not.

A LaTeX build reads the same pages. Here the parts of the first page become one chapter, chapters keep
the numbers of their files, tables get columns that fit the page, and machine-made lists stay out.
"""

from __future__ import annotations

import re
from itertools import zip_longest

from chapter_numbers import number_of
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx_proof.nodes import proof_node

# Every record and run card, hundreds of pages for a search box; LaTeX prints the bibliography itself.
ONLINE_ONLY = re.compile(r"appendix/(results(_\w+)?|run_cards|ledger|bibliography)$")
FIRST_PAGE = "In short"
NO_NUMBER = r"\setcounter{secnumdepth}{-2}"
PICTURE = r"\begin{center}\includegraphics[width=\linewidth]{space.pdf}\end{center}"
LETTERS_IN_A_LINE = 95  # of the small type that tables are set in
PREAMBLE = r"""
\usepackage{xurl}
\usepackage{etoolbox}
\IfFontExistsTF{DejaVu Sans Mono}{\setmonofont{DejaVu Sans Mono}[Scale=0.8,AutoFakeSlant=0.2]}{}
\newcommand{\smalltable}{\footnotesize\setlength{\tabcolsep}{3pt}\renewcommand{\arraystretch}{1.2}}
\AtBeginEnvironment{longtable}{\smalltable}
\AtBeginEnvironment{tabular}{\smalltable}
\makeatletter
\newcolumntype{\X}[2]{>{\raggedright\arraybackslash}p{\dimexpr
  (\linewidth-\spx@arrayrulewidth)*#1/#2-\tw@\tabcolsep-\spx@arrayrulewidth\relax}}
\makeatother
\setlength{\emergencystretch}{4em}
\addto\captionsenglish{\renewcommand{\contentsname}{Contents}}
\setcounter{tocdepth}{1}
"""
ELEMENTS = {
    "papersize": "a4paper",
    "extraclassoptions": "openany,oneside",
    "geometry": r"\usepackage[margin=22mm,headheight=14pt]{geometry}",
    "fvset": r"\fvset{fontsize=\footnotesize}",
    "fncychap": "",
    "figure_align": "htbp",
    "sphinxsetup": "verbatimforcewraps=true,verbatimmaxunderfull=0",
    "preamble": PREAMBLE,
}


def configure(app: Sphinx, config: Config) -> None:
    """Set the type area, the size of code and the breaking of long words."""
    config.latex_elements = {**config.latex_elements, **ELEMENTS}
    config.latex_additional_files = [*config.latex_additional_files, "_assets/space.pdf"]


def shown(cell: nodes.Node) -> str:
    """About the letters that a cell prints: a formula less the commands that make it."""
    text = cell.astext()
    for formula in cell.findall(nodes.math):
        source = formula.astext()
        text = text.replace(source, re.sub(r"\\[A-Za-z]+|[\\{}^_$ ]", "", source) or "x", 1)
    return text


def lengths(row: nodes.row) -> list[tuple[int, int]]:
    """Letters of each cell of a row, and of its longest word."""
    texts = [shown(entry) for entry in row]
    return [(len(text), max(map(len, re.split(r"[\s/_.=-]", text)), default=0)) for text in texts]


def widths(rows: list[list[tuple[int, int]]]) -> list[int]:
    """Shares of the line for the columns of a table.

    A column gets room for its longest word, and of what is left a part that grows more
    slowly than its longest text, so that one long column does not starve the others.
    """
    columns = list(zip_longest(*rows, fillvalue=(0, 0)))
    words = [min(max(word for _, word in column), 24) + 1 for column in columns]
    wish = [max(text for text, _ in column) ** 0.6 for column in columns]
    left = max(LETTERS_IN_A_LINE - sum(words), 0)
    return [
        round(10 * (word + left * w / (sum(wish) or 1)))
        for word, w in zip(words, wish, strict=True)
    ]


def fit_tables(doctree: nodes.document) -> None:
    """Give every table widths in proportion to its texts, and leave to break over pages."""
    for table in doctree.findall(nodes.table):
        rows = [lengths(row) for row in table.findall(nodes.row)]
        for column, width in zip(table.findall(nodes.colspec), widths(rows), strict=False):
            column["colwidth"] = width
        classes = [c for c in table["classes"] if c != "colwidths-auto"]
        table["classes"] = [*classes, "colwidths-given", *(["longtable"] if len(rows) > 8 else [])]


def plain_proofs(doctree: nodes.document) -> None:
    """Print a proof as text with a square at its end: a box of its own would have an empty title."""
    for proof in list(doctree.findall(proof_node)):
        (box,) = proof.children
        proof.replace_self([*box.children, latex(r"\hspace*{\fill}$\square$")])


def drop_folded_code(doctree: nodes.document) -> None:
    """Leave out the code that the site folds away: it draws the figure printed below it."""
    for cell in list(doctree.findall(nodes.container)):
        if "tag_hide-input" in cell["classes"]:
            inputs = [n for n in cell.children if "cell_input" in n.get("classes", ())]
            for node in inputs:
                cell.remove(node)


def latex(text: str) -> nodes.raw:
    return nodes.raw("", text, format="latex")


def gather(doctree: nodes.document) -> None:
    """Make the parts of the first page sections of one chapter, and drop what stays online."""
    top = next(doctree.findall(nodes.section))
    lists = [node for node in top.findall(nodes.compound) if "toctree-wrapper" in node["classes"]]
    pages = []
    for part in lists:
        part.parent.remove(part)
        for tree in part.findall(addnodes.toctree):
            kept = [(t, n) for t, n in tree["entries"] if not ONLINE_ONLY.match(n)]
            tree["entries"], tree["includefiles"] = kept, [n for _, n in kept]
            pages.append(latex(rf"{NO_NUMBER}\part{{{tree['caption']}}}"))
        pages.append(part)
    title, *body = top.children
    body.insert(1, latex(PICTURE))
    chapter = nodes.section("", nodes.title("", FIRST_PAGE), *body, ids=["first-page"])
    top.children = []
    top.extend([title, latex(NO_NUMBER), chapter, *pages])


def before(page: str) -> str:
    """What LaTeX is told before a page: the number of a chapter, none for other pages."""
    number = number_of(page)
    if number is None:
        return NO_NUMBER
    return rf"\setcounter{{secnumdepth}}{{1}}\setcounter{{chapter}}{{{number - 1}}}"


def prepare(app: Sphinx, doctree: nodes.document) -> None:
    """Change a page that has been read for LaTeX."""
    if app.builder.format != "latex":
        return
    page = app.env.docname
    fit_tables(doctree)
    plain_proofs(doctree)
    drop_folded_code(doctree)
    if page == app.config.root_doc:
        gather(doctree)
    else:
        doctree.insert(0, latex(before(page)))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", configure)
    app.connect("doctree-read", prepare, priority=900)  # after the contents have been put in
    return {"parallel_read_safe": True, "parallel_write_safe": True}
