"""Every recipe of the usage page, run as a reader would run it."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from pjrope import experiments
from pjrope.cli import _parser
from pjrope.experiments.engine import registry
from pjrope.training import load_model

PAGE = Path(__file__).resolve().parents[2] / "book" / "appendix" / "usage.md"
RECIPES = re.findall(
    r"^## (\d+)\. ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```",
    PAGE.read_text(encoding="utf8"),
    re.M | re.S,
)
NEEDS_HF = {"6", "7"}


def run(number):
    (code,) = [code for n, _, code in RECIPES if n == number]
    names = {}
    torch.manual_seed(0)
    exec(compile(code, f"usage.md, recipe {number}", "exec"), names)
    return names


def moments(names):
    assert names["y"].shape == (1, 8, 512, 64) and names["kernel"].rotates


def learned(names):
    assert names["losses"][-1] < 0.7 * names["losses"][0]


def the_same(names):
    tokens = torch.arange(12)[None]
    assert torch.equal(names["model"](tokens), names["same_model"](tokens))
    assert names["same_kernel"].spec == names["kernel"].spec


def decoded(names):
    assert_close(names["decoded"], names["full"], rtol=0, atol=1e-5)


def near(names):
    assert names["bias"].shape == (4, 12)
    names["table"].table.data[:, 3] = 1.0
    changed = names["kernel"].lag_bias(torch.arange(12)) - names["bias"]
    assert torch.nonzero(changed[0]).flatten().tolist() == [3]


def attached(names):
    tokens = torch.arange(1, 10)[None]
    with torch.no_grad():
        assert torch.equal(
            names["again"].eval()(tokens).logits, names["model"].eval()(tokens).logits
        )
    slopes = names["huggingface"].attached(names["again"])[0].slope
    assert_close(slopes, torch.full((4,), 2.0))


def extended(names):
    assert (
        names["rope"].extension.scale == 4.0
        and names["model"].config.max_position_embeddings == 1024
    )
    assert len(names["names"]) == 2 and all("raw_slope" in name for name in names["names"])


def asked(names):
    assert (
        {row["layer"] for row in names["sizes"]} == {0, 1} == {r["layer"] for r in names["layers"]}
    )
    assert all(0 < row["share_near"] < 1 for row in names["layers"])


def biased(names):
    causal, free = names["ours"]
    assert_close(names["dense"], causal, rtol=0, atol=1e-5)
    assert_close(names["flexible"], free, rtol=0, atol=1e-5)


def numbers(names):
    assert names["curves"].shape == (4, 512) and names["curves"].dtype == "float64"


def trained(names):
    assert len(names["done"].rows) >= 1 and Path("small.safetensors").is_file()


CHECKS = [moments, learned, the_same, decoded, near, attached, extended, asked, biased, numbers]
CHECKS.append(trained)


def test_there_are_twelve_and_every_block_of_python_is_run():
    page = PAGE.read_text(encoding="utf8")
    assert re.findall(r"^## (\d+)\. ", page, re.M) == [str(n) for n in range(1, 13)]
    assert [number for number, _, _ in RECIPES] == [str(n) for n in range(1, 12)]
    assert len(re.findall("```python", page)) == len(CHECKS) == 11


@pytest.mark.parametrize(("number", "title", "code"), RECIPES, ids=[r[1] for r in RECIPES])
def test_recipe(number, title, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if number in NEEDS_HF:
        pytest.importorskip("transformers", minversion="5")
    CHECKS[int(number) - 1](run(number))


@pytest.mark.weekly
def test_two_processes_of_torchrun_end_with_the_weights_of_one(tmp_path, monkeypatch):
    page = PAGE.read_text(encoding="utf8")
    (command,) = re.findall(r"^torchrun (.*) train_small\.py$", page, re.M)
    (code,) = [code for number, _, code in RECIPES if number == "11"]
    (tmp_path / "train_small.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    alone = run("11")["model"].state_dict()
    (tmp_path / "small.safetensors").unlink()
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", *command.split()]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([*launch, "train_small.py"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    together = load_model("small.safetensors").state_dict()
    assert together.keys() == alone.keys()
    for name, value in alone.items():
        assert_close(together[name], value, rtol=0, atol=1e-4)


def test_the_launcher_of_the_last_recipe_is_what_run_and_the_command_take():
    page = PAGE.read_text(encoding="utf8")
    (words,) = re.findall(r"^pjrope (run .* --launcher ray .*)$", page, re.M)
    args = _parser(words.split()).parse_args(words.split())
    assert (args.name, args.launcher, args.jobs) == ("byte_lm/baselines", "ray", 32)
    assert registry.get(args.name).preset(args.preset).name == "book"
    assert 'run("order_toy", launcher="ray", jobs=2)' in page
    assert {"launcher", "jobs"} <= set(inspect.signature(experiments.run).parameters)


def test_the_model_card_loads_what_a_grid_kept(tmp_path, monkeypatch):
    card = PAGE.with_name("model_card.md").read_text(encoding="utf8")
    (code,) = re.findall(r"^```python\n(.*?)^```", card, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(code, "model_card.md", "exec"), names)
    kept = names["model"].state_dict()
    again = load_model("small.safetensors").state_dict()
    assert kept.keys() == again.keys() and all(torch.equal(kept[n], again[n]) for n in kept)
    assert names["more"].shape[-1] >= 20
    (words,) = re.findall(r"^`pjrope (run near_lags [^`]*)`", card, re.M)
    args = _parser(words.split()).parse_args(words.split())
    assert args.only == [("method", "alibi")] and args.keep_work
