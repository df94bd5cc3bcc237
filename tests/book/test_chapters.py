"""Each rule of the chapter checks refuses a small bad chapter, and a good one passes them all."""

from __future__ import annotations

import base64
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import chapters
import checks
import jupytext
import matplotlib.pyplot as plt
import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.kernelspec import KernelSpecManager
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from packaging.requirements import Requirement
from PIL import Image, ImageChops, ImageStat

ROOT = Path(__file__).resolve().parents[2]
URL = "https://github.com/someone/something"
PIXEL = "iVBORw0KGgo="


def picture(**data):
    return new_output("display_data", {"image/png": PIXEL, "text/plain": "<Figure>", **data})


def code(source, *outputs, tags=(), **metadata):
    meta = {**metadata, **({"tags": list(tags)} if tags else {})}
    return new_code_cell(source, outputs=list(outputs), metadata=meta)


def good_cells():
    alt = {"image": {"alt": "A falling line."}}
    return [
        new_markdown_cell("# A chapter"),
        code(checks.colab_cell(URL), tags=["remove-cell"]),
        new_markdown_cell("First a number."),
        code("print(1)", new_output("stream", name="stdout", text="1\n")),
        new_markdown_cell("Then a figure."),
        code("draw()", picture(), mystnb=alt),
    ]


def write(folder: Path, cells, *, count=True, kernel="python3") -> Path:
    """Store a pair of files, and return the .md."""
    notebook = new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {
        "name": kernel,
        "display_name": "Python 3",
        "language": "python",
    }
    notebook.metadata["jupytext"] = {"formats": "ipynb,md:myst"}
    chapters.name_cells(notebook)
    if count:
        for number, cell in enumerate((c for c in cells if c.cell_type == "code"), 1):
            cell["execution_count"] = number
    folder.mkdir(parents=True, exist_ok=True)
    md = folder / "ch01_small.md"
    nbformat.write(notebook, md.with_suffix(".ipynb"))
    jupytext.write(notebook, md, fmt="md:myst")
    return md


def faults(folder, cells, **more):
    return checks.check_chapter(write(folder, cells, **more), URL)


def only(found, text):
    """The one fault found says ``text``."""
    assert len(found) == 1, found
    assert text in found[0]


def test_a_good_chapter_passes(tmp_path):
    assert faults(tmp_path, good_cells()) == []


def test_an_edited_twin_is_drift(tmp_path):
    md = write(tmp_path, good_cells())
    md.write_text(md.read_text().replace("First a number.", "First two numbers."))
    only(checks.check_chapter(md, URL), "differs from ch01_small.md")


def test_a_missing_notebook_is_named(tmp_path):
    md = write(tmp_path, good_cells())
    md.with_suffix(".ipynb").unlink()
    only(checks.check_chapter(md, URL), "missing, run")


def test_a_chapter_never_run(tmp_path):
    only(faults(tmp_path, good_cells(), count=False), "not run once from top to bottom")


def test_a_cell_run_twice(tmp_path):
    md = write(tmp_path, good_cells())
    notebook = nbformat.read(md.with_suffix(".ipynb"), 4)
    notebook.cells[3]["execution_count"] = 7
    nbformat.write(notebook, md.with_suffix(".ipynb"))
    only(checks.check_chapter(md, URL), "[1, 7, 3]")


def test_a_private_kernel(tmp_path):
    only(faults(tmp_path, good_cells(), kernel="my-env"), "my-env")


@pytest.mark.parametrize("path", ["/home/me/x.py", "/tmp/x", "/Users/me/x", "/mnt/x/y"])
def test_a_machine_path_in_an_output(tmp_path, path):
    cells = good_cells()
    cells[3]["outputs"][0]["text"] = f"read {path}\n"
    only(faults(tmp_path, cells), path)


def test_base64_that_spells_a_path_is_no_path(tmp_path):
    cells = good_cells()
    cells[5]["outputs"] = [picture(**{"image/png": "A" * 300 + "/tmp/aaa" + "A" * 300})]
    assert faults(tmp_path, cells) == []


def test_a_fat_notebook(tmp_path):
    cells = good_cells()
    cells[5]["outputs"] = [picture(**{"image/png": "A" * 600_000})]
    only(faults(tmp_path, cells), "601 kB, at most 500")


def test_another_first_cell(tmp_path):
    cells = good_cells()
    del cells[1]
    only(faults(tmp_path, cells), "first code cell must be exactly")


def test_a_colab_cell_with_another_address(tmp_path):
    md = write(tmp_path, good_cells())
    only(checks.check_chapter(md, URL + "-fork"), URL + "-fork")


def test_a_visible_colab_cell(tmp_path):
    cells = good_cells()
    del cells[1].metadata["tags"]
    only(faults(tmp_path, cells), "remove-cell")


@pytest.mark.parametrize("tag", ["remove-cell", "remove-input"])
def test_a_cell_that_no_reader_can_open(tmp_path, tag):
    cells = [*good_cells(), new_markdown_cell("Then."), code("x = 2", tags=[tag])]
    only(faults(tmp_path, cells), f"has the tag {tag}: fold it")


@pytest.mark.parametrize(
    "text",
    ["![a plot](plot.png)", '<img alt="a" src="x/plot.png">', "<audio src='a.mp3'></audio>"],
)
def test_a_file_that_colab_lacks(tmp_path, text):
    cells = good_cells()
    cells[2]["source"] = text
    only(faults(tmp_path, cells), "Colab has not")


def test_links_to_other_pages_are_no_missing_files(tmp_path):
    cells = good_cells()
    cells[2]["source"] = "See [the next chapter](ch02_x.ipynb) and ![a](data:image/png;base64,AA)."
    assert faults(tmp_path, cells) == []


def test_a_preset_as_wanted(tmp_path):
    cells = [*good_cells(), new_markdown_cell("Run."), code(checks.PRESET, tags=["parameters"])]
    cells += [new_markdown_cell("Live."), code('live = run("toy", preset)')]
    assert faults(tmp_path, cells) == []


@pytest.mark.parametrize(
    ("source", "tags"),
    [
        ('preset = "paper"  # @param ["smoke", "book", "paper"]', ["parameters"]),
        ('preset = "smoke"', ["parameters"]),
        (checks.PRESET, []),
    ],
)
def test_another_preset_cell(tmp_path, source, tags):
    cells = [*good_cells(), new_markdown_cell("Run."), code(source, tags=tags)]
    cells += [new_markdown_cell("Live."), code('live = run("toy", preset)')]
    only(faults(tmp_path, cells), "preset cells")


def test_a_run_without_a_preset(tmp_path):
    cells = [*good_cells(), new_markdown_cell("Live."), code('live = run("toy", "smoke")')]
    only(faults(tmp_path, cells), "preset cells")


def test_a_preset_that_nothing_reads(tmp_path):
    cells = [*good_cells(), new_markdown_cell("Run."), code(checks.PRESET, tags=["parameters"])]
    only(faults(tmp_path, cells), "wanted: none")


def test_defining_a_function_called_run_is_no_experiment(tmp_path):
    cells = [*good_cells(), new_markdown_cell("Ours."), code("def run(x):\n    return x")]
    assert faults(tmp_path, cells) == []


@pytest.mark.parametrize("alt", [None, "", "  "])
def test_a_figure_without_words(tmp_path, alt):
    cells = good_cells()
    cells[5]["metadata"] = {} if alt is None else {"mystnb": {"image": {"alt": alt}}}
    only(faults(tmp_path, cells), "without alt text")


def test_an_interactive_figure_carries_its_words_itself(tmp_path):
    cells = good_cells()
    cells[5] = code("show()", picture(**{"text/html": '<img alt="A line." src="data:x">'}))
    assert faults(tmp_path, cells) == []


def test_a_markdown_picture_without_words(tmp_path):
    cells = good_cells()
    cells[2]["source"] = "![](https://example.org/a.png)"
    only(faults(tmp_path, cells), "without alt text")


def test_a_wide_line(tmp_path):
    cells = good_cells()
    cells[3]["source"] = "x = " + "1" * 73
    only(faults(tmp_path, cells), "77 columns")


def test_a_long_cell(tmp_path):
    cells = good_cells()
    cells[3]["source"] = "\n".join("x = 1" for _ in range(21))
    only(faults(tmp_path, cells), "21 lines")


def test_two_code_cells_in_a_row(tmp_path):
    cells = good_cells()
    cells.insert(4, code("print(2)"))
    only(faults(tmp_path, cells), "no prose between")


def test_a_folded_cell_breaks_no_rhythm(tmp_path):
    cells = good_cells()
    cells.insert(4, code("x = 2", tags=["hide-cell"]))
    assert faults(tmp_path, cells) == []


@pytest.fixture
def tree(tmp_path):
    """A repository with one good chapter."""
    book = tmp_path / "book"
    write(book / "chapters", good_cells())
    (book / "index.md").write_text("# Book\n")
    (book / "_toc.yml").write_text(
        "format: jb-book\nroot: index\nparts:\n  - chapters:\n"
        "      - file: chapters/ch01_small.ipynb\n"
    )
    (tmp_path / "_config.yml").write_text(f"repository:\n  url: {URL}\n")
    (tmp_path / "pyproject.toml").write_text(f'[project.urls]\nRepository = "{URL}"\n')
    (tmp_path / "CITATION.cff").write_text(f"repository-code: {URL}\n")
    link = "https://colab.research.google.com/github/someone/something/blob/main/book/chapters/ch01_small.ipynb"
    (tmp_path / "README.md").write_text(f"[Colab]({link})\n")
    tools = book / "_tools"
    tools.mkdir()
    return tmp_path


def test_a_good_tree_passes(tree):
    assert chapters.check(tree / "book", []) == []


def test_a_chapter_outside_the_contents(tree):
    pair = tree / "book" / "chapters" / "ch01_small"
    for ending in (".md", ".ipynb"):
        shutil.copy(pair.with_suffix(ending), pair.with_name("ch02_stray").with_suffix(ending))
    found = chapters.check(tree / "book", [])
    assert "_toc.yml does not name chapters/ch02_stray.ipynb" in found


def test_a_page_of_the_contents_that_is_absent(tree):
    (tree / "book" / "index.md").unlink()
    only(chapters.check(tree / "book", []), "_toc.yml names index")


def test_a_notebook_without_its_source(tree):
    folder = tree / "book" / "chapters"
    shutil.copy(folder / "ch01_small.ipynb", folder / "ch03_orphan.ipynb")
    only(chapters.check(tree / "book", []), "ch03_orphan.ipynb has no .md twin")


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("ch01_small", "ch02_other", "main/book/chapters/ch01_small.ipynb"),
        ("blob/main", "blob/v0.1.0", "main/book/chapters/ch01_small.ipynb"),
    ],
)
def test_a_chapter_that_colab_is_not_offered(tree, before, after, says):
    readme = tree / "README.md"
    readme.write_text(readme.read_text().replace(before, after))
    only(chapters.check(tree / "book", []), says)


def test_a_release_installs_its_own_tag(tmp_path):
    cells = good_cells()
    cells[1]["source"] = checks.colab_cell(URL, "v0.2.0")
    assert cells[1].source.endswith(
        '    source = "git+https://github.com/someone/something.git@v0.2.0"\n'
        '    !pip install -q "pjrope[book] @ {source}"'
    )
    md = write(tmp_path, cells)
    assert checks.check_chapter(md, URL, "v0.2.0") == []
    only(checks.check_chapter(md, URL), "its first code cell must be exactly")


def test_colab_is_asked_for_the_package_with_what_chapters_import():
    """As IPython hands the command to pip: the extra is there, and pip can read it."""
    *_, line, command = checks.colab_cell(URL, "v0.2.0").splitlines()
    shell = InteractiveShell()
    shell.run_cell(line.strip())
    asked = Requirement(shlex.split(shell.var_expand(command))[-1])
    assert (asked.name, asked.extras) == ("pjrope", {"book"})
    assert asked.url == f"git+{URL}.git@v0.2.0"


@pytest.mark.parametrize("name", ["pyproject.toml", "CITATION.cff", "README.md"])
def test_another_address_somewhere(tree, name):
    path = tree / name
    path.write_text(path.read_text().replace("someone", "somebody"))
    only(checks.check_urls(tree), name)


@pytest.mark.parametrize("name", ["pyproject.toml", "CITATION.cff", "README.md"])
def test_no_address_somewhere(tree, name):
    (tree / name).write_text("nothing\n")
    only(checks.check_urls(tree), "names no repository")


def test_an_empty_book_is_no_pass(tree):
    shutil.rmtree(tree / "book" / "chapters")
    with pytest.raises(FileNotFoundError, match="no chapter"):
        chapters.check(tree / "book", [])


def test_an_unknown_name_lists_the_known(tree):
    with pytest.raises(FileNotFoundError, match="ch09_none, there are: ch01_small"):
        chapters.find(tree / "book", ["ch09_none"])


def test_the_command_line_fails_on_a_fault(tree, capsys):
    assert chapters.main(["check"], tree / "book") == 0
    (tree / "book" / "index.md").unlink()
    assert chapters.main(["check"], tree / "book") == 1
    assert "names index" in capsys.readouterr().out
    assert chapters.main(["fly"], tree / "book") == 2


def test_run_stores_what_is_the_same_everywhere(tree):
    """Executes a chapter with a widget, split output and a traceback, twice: equal files."""
    cells = [
        *good_cells()[:3],
        code(
            "import ipywidgets, pathlib, sys\nprint(pathlib.Path.cwd().name, flush=True)\nprint(2)"
        ),
        new_markdown_cell("A widget with a picture's stand-in."),
        code(
            "class Both(ipywidgets.VBox):\n"
            "    def _repr_mimebundle_(self, **kwargs):\n"
            "        data = super()._repr_mimebundle_(**kwargs)\n"
            '        return {**data, "text/html": "<p>page</p>", "text/plain": "Both"}\n'
            "Both()"
        ),
        new_markdown_cell("An error that is meant."),
        code("pathlib.Path('nowhere').read_text()", tags=["raises-exception"]),
    ]
    md = write(tree / "book" / "chapters", cells, count=False)
    ipynb = chapters.run(md, tree)
    first = ipynb.read_bytes()
    assert checks.check_chapter(md, URL) == []
    notebook = nbformat.read(ipynb, 4)
    assert notebook.cells[3].outputs[0].text == "chapters\n2\n"
    assert set(notebook.cells[5].outputs[0].data) == {"text/html", "text/plain"}
    assert "widgets" not in notebook.metadata
    chapters.run(md, tree)
    assert ipynb.read_bytes() == first


def test_pictures_shrink_and_look_the_same():
    fig, ax = plt.subplots(figsize=(3, 2))
    for n in range(5):
        ax.plot([0, 1, 2], [n, 2 * n, 1], label=str(n))
    ax.legend()
    raw = io.BytesIO()
    fig.savefig(raw, format="png", facecolor="white")
    plt.close(fig)
    before = base64.b64encode(raw.getvalue()).decode()
    after = chapters.lighten(before)
    assert len(after) < len(before) / 2
    pictures = [Image.open(io.BytesIO(base64.b64decode(x))).convert("RGB") for x in (before, after)]
    assert pictures[0].size == pictures[1].size
    apart = ImageChops.difference(*pictures)
    assert max(high for _, high in apart.getextrema()) <= 64, "one pixel of a rare tint"
    assert max(ImageStat.Stat(apart).mean) < 0.5
    assert chapters.lighten(after) == after


def test_try_changes_the_preset_and_stores_nothing(tree, capsys):
    cells = [
        *good_cells()[:3],
        code(checks.PRESET, tags=["parameters"]),
        new_markdown_cell("Which?"),
        code("print('ran', preset)"),
    ]
    md = write(tree / "book" / "chapters", cells, count=False)
    before = md.with_suffix(".ipynb").read_bytes()
    assert chapters.main(["try", "ch01_small", "paper"], tree / "book") == 0
    assert "ran paper" in capsys.readouterr().out
    assert md.with_suffix(".ipynb").read_bytes() == before


def test_a_new_chapter_starts_with_the_right_cell(tree):
    md = chapters.new(tree / "book", "ch05_alibi", "Near is better")
    notebook = jupytext.read(md)
    first = next(c for c in notebook.cells if c.cell_type == "code")
    assert first.source == checks.colab_cell(URL)
    assert "# Near is better" in md.read_text()
    assert not re.search("@[A-Z]+@", md.read_text()), "a mark of the template is left"
    with pytest.raises(ValueError, match="exists"):
        chapters.new(tree / "book", "ch05_alibi", "Again")
    with pytest.raises(ValueError, match="no chapter name"):
        chapters.new(tree / "book", "alibi", "Again")


def test_a_users_kernel_does_not_run_chapters(tree, monkeypatch):
    """A kernelspec called python3 in the user's folder would win over the environment's own."""
    planted = tree / "jupyter" / "kernels" / "python3"
    planted.mkdir(parents=True)
    spec = {"argv": ["false"], "display_name": "Python 3", "language": "python"}
    (planted / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tree / "jupyter"))
    assert KernelSpecManager().get_kernel_spec("python3").argv == ["false"]
    asked = jupytext.read(tree / "book" / "chapters" / "ch01_small.md")
    asked.cells[3]["source"] = "import sys; print(sys.executable)"
    asked.cells[5]["source"] = "pass"
    md = tree / "book" / "chapters" / "ch02_asks.md"
    jupytext.write(asked, md, fmt="md:myst")
    assert chapters.execute(md).cells[3].outputs[0].text.strip() == sys.executable


def test_the_committed_book_keeps_every_rule():
    assert chapters.check(ROOT / "book", []) == []


@pytest.mark.parametrize(
    ("version", "ensurepip", "free", "says"),
    [
        ((3, 10), True, 50.0, "3.11 or newer, this is 3.10"),
        ((3, 11), False, 50.0, "python3-venv"),
        ((3, 12), True, 0.5, "0.5 GB free here"),
    ],
)
def test_a_machine_that_will_not_do(version, ensurepip, free, says):
    import machine

    assert says in machine.complaint(version, ensurepip, free)


def test_this_machine_will_do():
    done = subprocess.run(
        [sys.executable, ROOT / "book" / "_tools" / "machine.py"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
