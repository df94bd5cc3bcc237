"""A bare install: what works without the libraries of the extras, and what a missing one says."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pjrope.extras import MissingLibrary, need

ROOT = Path(__file__).resolve().parents[1]
WITHOUT = ("matplotlib", "pandas", "scipy", "ipywidgets", "IPython", "mido", "transformers", "PIL")
# None in sys.modules is how Python itself says "not installed".
HIDE = f"import sys; sys.modules.update(dict.fromkeys({WITHOUT!r})); "


def bare(code: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HIDE + code, *argv], capture_output=True, text=True
    )


COMMANDS = (
    "data --list",
    "data toy_language",
    "list",
    "show kernel_probes",
    "show bench",
    "ledger",
)


def test_the_commands_work_bare() -> None:
    # One process for all of them: torch takes two seconds to load.
    code = (
        "from pjrope.cli import main\n"
        "for command in sys.argv[1:]:\n"
        "    print('CODE', command, '=', main(command.split()))\n"
    )
    done = bare("\n" + code, *COMMANDS)
    assert done.returncode == 0, done.stderr
    codes = [line for line in done.stdout.splitlines() if line.startswith("CODE")]
    assert codes == [f"CODE {command} = 0" for command in COMMANDS], done.stderr


def test_the_package_works_bare() -> None:
    code = (
        "import pjrope, torch; m = pjrope.Decoder(pjrope.DecoderConfig(vocab=8, width=16, layers=1, "
        "heads=2, length=8, kernel=pjrope.RoPE(8).spec), seed=0); "
        "print(tuple(m(torch.zeros(1, 8, dtype=torch.long)).shape)); "
        "import pjrope.data, pjrope.diagnostics, pjrope.plotting"
    )
    done = bare(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(1, 8, 8)"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import pjrope.interactive", 'ipywidgets is not installed: pip install "pjrope[book]"'),
        (
            "import pjrope.plotting as p\nwith p.use_style(): pass",
            'matplotlib is not installed: pip install "pjrope[book]"',
        ),
    ],
)
def test_a_missing_library_is_named_with_its_remedy(code: str, told: str) -> None:
    done = bare("\n" + code)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == f"pjrope.extras.MissingLibrary: {told}"


def test_an_error_inside_a_library_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brokenlibrary.py").write_text("import nothing_of_this_name")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nothing_of_this_name") as caught:
        need("brokenlibrary", "book")
    assert not isinstance(caught.value, MissingLibrary)


def test_every_library_is_declared_and_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = {
        line.partition("==")[0]
        for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(name for group in extras.values() for name in group)]
    names = {name.split("[")[0].split("=")[0].strip("<>~! ") for name in wanted} - {"pjrope"}
    names = {name.split(">")[0].split("<")[0] for name in names}
    # No part of the proof on a user's machine: .ci/run and make weekly bring them.
    names -= {"ray", "x-transformers"}
    assert names <= pins, f"not pinned in requirements.txt: {sorted(names - pins)}"
    assert not any("jupyter" in name for name in extras["book"])
