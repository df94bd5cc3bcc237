"""What GitHub runs: only commands that tests run too, so that a workflow breaks here first."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import lacking

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = ("book", "test", "lint", "unit", "weekly", "colab", "pdf", "release", "clean")


def jobs(path: Path) -> dict:
    return yaml.safe_load(path.read_text())["jobs"]


def commands(path: Path) -> list[str]:
    steps = [step for job in jobs(path).values() for step in job["steps"]]
    return [line.strip() for step in steps for line in step.get("run", "").splitlines()]


def planned(target: str, **variables: str) -> str:
    """What make would run for a target, without running it."""
    if shutil.which("make") is None:
        lacking("no make: install it; what its targets would run was not looked at")
    done = subprocess.run(
        ["make", "-n", target], cwd=ROOT, env=os.environ | variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_workflows_for_every_purpose():
    assert {path.stem for path in WORKFLOWS} == {"test", "weekly", "release"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_the_proof_or_a_target_of_make(path):
    assert commands(path)
    for command in commands(path):
        match shlex.split(command):
            case [".ci/run" | ".ci/tex" as script]:
                assert os.access(ROOT / script, os.X_OK)
            case ["make", target]:
                assert target in TARGETS
            case _:
                pytest.fail(
                    f"{path.name} runs {command!r}: move it into a target of make or a tool"
                )


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_no_input_of_a_stranger_is_pasted_into_a_command(path):
    assert not any("${{" in command for command in commands(path))
    for step in [step for job in jobs(path).values() for step in job["steps"]]:
        assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/none@v1"))


@pytest.mark.parametrize("target", TARGETS)
def test_targets_exist_and_their_tools_are_tested(target):
    plan = planned(target, VERSION="0.2.0", PUSH="--push")
    tools = set(re.findall(r"book/_tools/(\w+)\.py", plan))
    tests = "\n".join(path.read_text() for path in (ROOT / "tests" / "book").glob("test_*.py"))
    for tool in tools:
        assert (ROOT / "book" / "_tools" / f"{tool}.py").is_file()
        assert re.search(rf"\bimport {tool}\b|_tools.*{tool}\.py|from {tool} import", tests), tool


def test_the_proof_on_a_bare_machine_is_make_test():
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("exec make test")


def test_versions_are_those_the_package_promises():
    versions = jobs(ROOT / ".github" / "workflows" / "test.yml")["versions"]
    matrix = versions["strategy"]["matrix"]
    project = (ROOT / "pyproject.toml").read_text()
    pins = (ROOT / "requirements.txt").read_text()
    assert f'requires-python = ">={matrix["python"][0]}"' in project
    oldest, pinned = matrix["torch"]
    assert f'"torch>={oldest.removesuffix(".0")}"' in project
    assert f"torch=={pinned}\n" in pins
    assert "install --quiet torch==2.6.0" in planned("unit", TORCH="2.6.0")
    assert "torch==" not in planned("unit", TORCH="")


def test_the_weekly_run_has_the_versions_of_colab():
    plan = planned("colab")
    assert '"torch==2.11.*" "ipywidgets==7.7.1"' in plan
    assert "--nbval-lax --nbval-current-env" in plan and "ch01_order.ipynb" in plan
    job = jobs(ROOT / ".github" / "workflows" / "weekly.yml")["colab"]
    assert job["steps"][1]["with"]["python-version"] == "3.13"


def test_what_the_proof_leaves_out_runs_each_week():
    """A test that joins the list is named here, in the commit that takes it out of the proof."""
    tests, mark = ROOT / "tests", "@pytest.mark." + "weekly\n"
    marked = {str(p.relative_to(tests)): p.read_text().count(mark) for p in tests.rglob("*.py")}
    assert {path: count for path, count in marked.items() if count} == {
        "bench/test_bench.py": 1,  # the peak of memory at 32,768 tokens
        "experiments/test_ray_tasks.py": 5,  # what breaks or ends on a Ray cluster
        "integrations/test_usage.py": 1,  # the recipe for torchrun
    }
    assert "-m 'not weekly'" in (ROOT / "pyproject.toml").read_text()
    assert commands(ROOT / ".github" / "workflows" / "weekly.yml") == ["make colab", "make weekly"]
    plan = planned("weekly")
    assert "pytest -m weekly tests" in plan and '"ray==' in plan and '"triton==' in plan
    assert "PJROPE_WEEKLY=1 .venv/bin/python -m pytest tests/attention/test_triton.py" in plan


def test_a_release_gets_its_version_and_pushes():
    plan = planned("release", VERSION="0.2.0", PUSH="--push")
    assert "book/_tools/release.py 0.2.0 --push" in plan


def test_the_pdf_says_what_it_needs():
    plan = planned("pdf")
    assert "--builder pdflatex --all" in plan and ".ci/tex" in plan


def test_a_release_has_the_pdf():
    told = commands(ROOT / ".github" / "workflows" / "release.yml")
    assert told == [".ci/run", ".ci/tex", "make pdf", "make release"]


def test_a_commit_checks_what_the_proof_checks():
    """Each check of `make lint` and `make test` that needs no test run is a hook."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    entries = " ".join(hook["entry"] for hook in hooks)
    for check in ("ruff check", "ruff format", "mypy", "chapters.py check", "pages.py check"):
        assert check in entries
    lint = planned("lint")
    assert all(f"-m {check}" in lint for check in ("ruff check", "ruff format", "mypy"))
