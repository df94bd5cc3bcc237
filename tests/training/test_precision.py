"""Mixed precision, pieces of a batch, recomputed blocks and several processes change no result."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from pjrope.data import toy_language
from pjrope.kernels import PJBias, RoPE
from pjrope.models import Decoder, DecoderConfig
from pjrope.training import CheckpointError, TrainConfig, train
from pjrope.training.precision import resolve_precision
from pjrope.training.step import Stepper

TEXT = toy_language(2000, seed=1)
KERNEL = (RoPE(8) + PJBias(2, 16)).spec
CONFIG = TrainConfig(steps=6, batch=4, length=16, clip=1.0, log_every=1, checkpoint_every=3)


def model():
    config = DecoderConfig(vocab=16, width=16, layers=2, heads=2, length=16, kernel=KERNEL)
    return Decoder(config, seed=0)


def losses(**options):
    return [row["loss"] for row in train(model(), TEXT, replace(CONFIG, **options), seed=0).rows]


def test_what_suits_a_device(monkeypatch):
    assert resolve_precision("auto", "cpu") == "fp32"
    for capability, wanted in (((7, 5), "fp16"), ((8, 0), "bf16"), ((9, 0), "bf16")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, c=capability: c)
        assert resolve_precision("auto", "cuda") == wanted
    monkeypatch.setenv("PJROPE_PRECISION", "fp32")
    assert resolve_precision("auto", "cuda") == "fp32"
    assert resolve_precision("bf16", "cuda") == "bf16"
    monkeypatch.setenv("PJROPE_PRECISION", "fp8")
    with pytest.raises(ValueError, match="fp8"):
        resolve_precision("auto", "cpu")


@pytest.mark.parametrize("wrong", [{"precision": "half"}, {"accumulate": 0}])
def test_settings_that_do_not_exist(wrong):
    with pytest.raises(ValueError, match=r"half|accumulate is 0"):
        replace(CONFIG, **wrong)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_halves_learn_about_the_same_and_weights_stay_wide(precision):
    built = model()
    rows = train(built, TEXT, replace(CONFIG, precision=precision), seed=0).rows
    assert {p.dtype for p in built.parameters()} == {torch.float32}
    assert [row["loss"] for row in rows] != losses()
    assert [row["loss"] for row in rows] == pytest.approx(losses(), abs=0.05)


@pytest.mark.parametrize("options", [{"accumulate": 2}, {"accumulate": 3}, {"accumulate": 9}])
def test_pieces_of_a_batch_give_its_loss_and_gradient(options):
    assert losses(**options) == pytest.approx(losses(), abs=1e-5)


def test_pieces_with_unequal_numbers_of_targets_weigh_by_them():
    def sample(generator, batch, length):
        tokens = torch.randint(16, (batch, length + 1), generator=generator)
        targets = tokens[:, 1:].clone()
        targets[0, 3:] = -100
        targets[1] = -100
        return tokens[:, :-1], targets

    found = [
        [row["loss"] for row in train(model(), sample, replace(CONFIG, **o), seed=0).rows]
        for o in ({}, {"accumulate": 4})
    ]
    assert found[1] == pytest.approx(found[0], abs=1e-5)


def test_recomputed_blocks_give_the_same_bits():
    built = model()
    train(built, TEXT, replace(CONFIG, checkpointing=True), seed=0)
    other = model()
    train(other, TEXT, CONFIG, seed=0)
    for a, b in zip(built.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
    assert all("forward" not in vars(block) for block in built.blocks)
    with pytest.raises(ValueError, match="no blocks"):
        train(Bare(), TEXT, replace(CONFIG, checkpointing=True), seed=0)


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 16)

    def forward(self, tokens):
        return self.table(tokens)


def test_a_compiled_model_is_what_runs_and_the_plain_one_what_is_kept(monkeypatch, tmp_path):
    compiled = []

    def stand_in(module):
        compiled.append(module)
        return lambda tokens: module(tokens)

    monkeypatch.setattr(torch, "compile", stand_in)
    built = model()
    config = replace(CONFIG, compile=True)
    assert [r["loss"] for r in train(built, TEXT, config, seed=0, out=tmp_path).rows] == losses()
    assert compiled == [built]
    assert train(model(), TEXT, config, seed=0, out=tmp_path).resumed_from == CONFIG.steps


def test_fp16_resumes_to_the_bit_with_its_scale(tmp_path):
    config = replace(CONFIG, precision="fp16")
    straight = model()
    train(straight, TEXT, config, seed=0)
    train(model(), TEXT, replace(config, steps=3), seed=0, out=tmp_path)
    resumed = model()
    assert train(resumed, TEXT, config, seed=0, out=tmp_path).resumed_from == 3
    for a, b in zip(straight.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)
    step = Stepper(model(), torch.optim.SGD(model().parameters()), config, nn.MSELoss())
    step.restore({**step.state(), "scale": 8.0})
    assert step.scaler.get_scale() == 8.0
    with pytest.raises(CheckpointError, match=r"config\.precision"):
        train(model(), TEXT, CONFIG, seed=0, out=tmp_path)


def test_a_training_begun_before_there_were_such_settings_goes_on():
    assert "precision" not in CONFIG.identity()
    assert set(replace(CONFIG, precision="bf16", compile=True).identity()) > {
        "precision",
        "compile",
    }


WORKER = """
import json, sys
from dataclasses import replace
import torch
from pjrope.training import join_processes, train
from tests.training.test_precision import CONFIG, TEXT, model

torch.set_num_threads(1)
join_processes()
out = sys.argv[1]
first = train(model(), TEXT, replace(CONFIG, steps=3), seed=0, out=out + "/run")
built = model()
result = train(built, TEXT, CONFIG, seed=0, out=out + "/run")
rank = torch.distributed.get_rank()
facts = {
    "losses": [row["loss"] for row in result.rows],
    "resumed": result.resumed_from,
    "weights": [float(p.detach().double().sum()) for p in built.parameters()],
}
open(f"{out}/{rank}.json", "w").write(json.dumps(facts))
torch.distributed.destroy_process_group()
"""


def test_two_processes_train_as_one(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = Path(__file__).resolve().parents[2]
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    running = [
        subprocess.Popen(
            [sys.executable, script, tmp_path],
            env={**os.environ, **shared, "RANK": str(n), "LOCAL_RANK": str(n)}
            | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(2)
    ]
    errors = [process.communicate(timeout=300)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], errors
    facts = [json.loads((tmp_path / f"{n}.json").read_text()) for n in range(2)]
    alone = model()
    rows = train(alone, TEXT, CONFIG, seed=0).rows
    assert facts[0]["losses"] == pytest.approx([row["loss"] for row in rows], abs=1e-6)
    assert facts[0]["weights"] == facts[1]["weights"]
    weights = [float(p.detach().double().sum()) for p in alone.parameters()]
    assert facts[0]["weights"] == pytest.approx(weights, abs=1e-4)
    assert [f["resumed"] for f in facts] == [3, 3]


def test_a_card_names_the_number_type_unless_it_is_the_usual_one(monkeypatch):
    from pjrope.experiments.engine.environment import describe

    assert describe("cpu")["device"] == "cpu"
    monkeypatch.setenv("PJROPE_PRECISION", "bf16")
    assert describe("cpu")["device"] == "cpu, bf16"


def test_the_command_sets_it_for_the_processes_it_starts(monkeypatch):
    from pjrope.cli import main

    monkeypatch.setenv("PJROPE_PRECISION", "auto")
    assert main(["run", "no_such_experiment", "--precision", "bf16"]) != 0
    assert os.environ["PJROPE_PRECISION"] == "bf16"
