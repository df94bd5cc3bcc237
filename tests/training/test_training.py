"""Training resumes to the bit, positions learn at their own rates, evaluation scores fixed bytes."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from pjrope.data import evaluation_windows, toy_language
from pjrope.kernels import Affine, PJBias, RoPE
from pjrope.models import Decoder, DecoderConfig
from pjrope.training import (
    CheckpointError,
    TrainConfig,
    evaluate,
    load_model,
    loop,
    save_model,
    stream,
    token_losses,
    train,
)
from pjrope.training.evaluation import position_buckets
from pjrope.training.groups import parameter_groups
from pjrope.training.runlog import RunLog
from pjrope.training.seeding import stream_seed
from pjrope.training.step import Stepper

TEXT = toy_language(4000, seed=1)
KERNEL = (RoPE(8) + PJBias(2, 16)).spec
CONFIG = TrainConfig(
    steps=30, batch=4, length=16, warmup=3, final_lr=0.1, clip=1.0, log_every=5, checkpoint_every=10
)


def model(seed=0, kernel=KERNEL, tied=True):
    config = DecoderConfig(
        vocab=16, width=16, layers=2, heads=2, length=16, tied=tied, kernel=kernel
    )
    return Decoder(config, seed=seed)


def same(a, b):
    return all(
        torch.equal(x, y)
        for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


def test_training_learns_and_is_deterministic():
    first, second = model(), model()
    rows = train(first, TEXT, CONFIG, seed=1).rows
    assert rows == train(second, TEXT, CONFIG, seed=1).rows
    assert same(first, second)
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.1
    other = model()
    assert train(other, TEXT, CONFIG, seed=2).rows != rows


SCRIPT = """
import sys, torch
sys.path.insert(0, {root!r})
torch.set_num_threads(1)
from tests.training import test_training as t
import pjrope.training.folder as folder
original = folder.save_tensors
def slow(*args, **kwargs):
    original(*args, **kwargs)
    print("saved", flush=True)
    import time; time.sleep(5)
folder.save_tensors = slow
t.train(t.model(), t.TEXT, t.CONFIG, seed=1, out={out!r})
"""


def test_killed_and_resumed_ends_with_the_same_bits(tmp_path):
    root = str(Path(__file__).parents[2])
    code = SCRIPT.format(root=root, out=str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert process.stdout.readline() == "saved\n"
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    resumed, whole = model(), model()
    result = train(resumed, TEXT, CONFIG, seed=1, out=tmp_path)
    assert result.resumed_from == 10
    straight = train(whole, TEXT, CONFIG, seed=1)
    assert same(resumed, whole)
    assert result.rows == straight.rows
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert logged == straight.rows
    again = train(model(), TEXT, CONFIG, seed=1, out=tmp_path)
    assert again.resumed_from == CONFIG.steps
    assert again.rows == straight.rows


def test_rows_past_the_checkpoint_are_cut(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"step": n}) + "\n" for n in (5, 10, 15)))
    kept = RunLog(log, step=10)
    kept.add(step=15, loss=1.0)
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == [5, 10, 15]
    assert kept.rows == [{"step": 5}, {"step": 10}, {"step": 15, "loss": 1.0}]


def test_gradients_are_clipped():
    def moved(clip):
        built = model()
        before = [p.detach().clone() for p in built.parameters()]
        sgd = torch.optim.SGD(built.parameters(), lr=1.0)
        step = Stepper(built, sgd, replace(CONFIG, clip=clip), loop.token_loss)
        step(*loop._drawn(TEXT, CONFIG, stream(0, "data", 0)))
        return math.sqrt(
            sum(
                float((p.detach() - b).square().sum())
                for p, b in zip(built.parameters(), before, strict=True)
            )
        )

    assert moved(0.0) > 1e-2
    assert moved(1e-3) == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize("data", [torch.rand(100), TEXT[:90].view(9, 10), [1, 2, 3]])
def test_data_that_are_no_tokens_are_refused(data):
    with pytest.raises(ValueError, match="1-D tensor of integer tokens or a sampler"):
        train(model(), data, CONFIG, seed=0)


def test_a_log_line_cut_by_a_kill_is_dropped(tmp_path):
    train(model(), TEXT, CONFIG, seed=1, out=tmp_path)
    log = tmp_path / "log.jsonl"
    log.write_text(log.read_text() + '{"step": 99, "lo')
    assert [r["step"] for r in train(model(), TEXT, CONFIG, seed=1, out=tmp_path).rows] == [
        5,
        10,
        15,
        20,
        25,
        30,
    ]


def test_a_folder_of_another_run_is_refused(tmp_path):
    train(model(), TEXT, CONFIG, seed=1, out=tmp_path)
    frozen = model()
    frozen.blocks[0].attention.kernel.freeze("gate_logits")
    for other, text, seed, why in (
        (model(), TEXT, 2, "seed was 1, is 2"),
        (model(kernel=None), TEXT, 1, "model.kernel was"),
        (model(seed=5), TEXT, 1, "start was"),
        (model(), toy_language(4000, seed=2), 1, "data was"),
        (frozen, TEXT, 1, "trained was"),
    ):
        with pytest.raises(CheckpointError, match=f"another run's: {why}"):
            train(other, text, CONFIG, seed=seed, out=tmp_path)


def test_checkpoints_carry_their_configuration(tmp_path):
    first = model(tied=False)
    train(first, TEXT, CONFIG, seed=1)
    save_model(tmp_path / "m.safetensors", first)
    again = load_model(tmp_path / "m.safetensors")
    assert again.config == first.config
    assert same(first, again)
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        load_model(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"pickle")
    with pytest.raises(CheckpointError, match="no readable checkpoint"):
        load_model(tmp_path / "bad.safetensors")
    assert not list(tmp_path.glob("*.part"))


def test_position_parameters_learn_at_their_own_rates_without_decay():
    config = TrainConfig(steps=1, batch=1, length=4, position_lr=2.0, weight_decay=0.5)
    built = model()
    groups = parameter_groups(built, config)
    assert [(g["factor"], g["weight_decay"]) for g in groups] == [
        (1.0, 0.5),
        (2.0, 0.0),
        (10.0, 0.0),
        (0.0, 0.0),
    ]
    names = {id(p): n.split(".")[-1] for n, p in built.named_parameters()}
    assert {names[id(p)] for p in groups[3]["params"]} == {"omega"}
    assert {names[id(p)] for p in groups[2]["params"]} == {
        "gate_logits",
        "fj_alpha_logits",
        "lc_alpha_logits",
    }
    assert sum(len(g["params"]) for g in groups) == len(list(built.parameters()))
    before = [b.attention.kernel.parts[1].omega.detach().clone() for b in built.blocks]
    train(built, TEXT, CONFIG, seed=0)
    for block, omega in zip(built.blocks, before, strict=True):
        assert torch.equal(block.attention.kernel.parts[1].omega, omega)
        assert not torch.equal(block.attention.kernel.parts[1].gate_logits, torch.zeros(2, 3))


def test_learning_rate_schedule():
    config = TrainConfig(steps=110, batch=1, length=1, lr=1.0, warmup=10, final_lr=0.1)
    assert config.rate(0) == pytest.approx(0.1)
    assert config.rate(9) == pytest.approx(1.0)
    assert config.rate(60) == pytest.approx(0.55)
    assert config.rate(110) == pytest.approx(0.1)
    assert TrainConfig(steps=9, batch=1, length=1, lr=0.5).rate(8) == 0.5


def test_a_sampler_draws_batches_and_ignored_targets_count_for_nothing():
    seen = []

    def sample(generator, batch, length):
        seen.append(int(torch.randint(10**6, (), generator=generator)))
        x = torch.randint(16, (batch, length), generator=generator)
        y = torch.full_like(x, -100)
        y[:, -1] = x[:, -1]
        return x, y

    rows = train(model(), sample, TrainConfig(steps=2, batch=3, length=5, log_every=1), seed=0).rows
    assert len(set(seen)) == 2
    x, y = sample(stream(0, "data", 0), 3, 5)
    expected = cross_entropy(model()(x)[:, -1], y[:, -1])
    # The sampler drew one number before x, here and in the run alike.
    assert rows[0]["loss"] == pytest.approx(float(expected.detach()), rel=1e-5)


def test_streams_are_apart_and_the_same_everywhere():
    seeds = [
        stream_seed(*key)
        for key in ((0, "data", 1), (0, "data", 2), (1, "data", 1), (0, "exam", 1))
    ]
    assert len(set(seeds)) == 4
    assert seeds[0] == 2247614744653750975


def test_a_loss_that_is_not_finite_stops_the_run():
    with pytest.raises(FloatingPointError, match="lower lr"):
        train(model(), TEXT, TrainConfig(steps=5, batch=2, length=8, lr=1e9, log_every=1), seed=0)


def test_evaluation_scores_the_same_bytes_at_every_length():
    windows = evaluation_windows(TEXT, segments=4, scored=32, longest=256)
    judged = model()
    rows = evaluate(judged, windows, lengths=(16, 64, 256))
    assert [row["length"] for row in rows] == [16, 64, 256]
    # By hand: the scored part of each window, averaged.
    for row in rows:
        tokens, start = windows.windows(row["length"])
        with torch.no_grad():
            logits = judged(tokens[:, :-1])
        loss = cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
        assert row["loss"] == pytest.approx(float(loss[:, start:].mean()), abs=1e-5)
        assert row["loss_all"] == pytest.approx(float(loss.mean()), abs=1e-5)
        assert sum(row["segments"]) / 4 == pytest.approx(row["loss"])
        assert row["buckets"][-1]["to"] == row["length"]
        weighted = sum(b["loss"] * (b["to"] - b["from"]) for b in row["buckets"]) / row["length"]
        assert weighted == pytest.approx(row["loss_all"], abs=1e-6)


def test_segments_are_reported_in_order():
    windows = evaluation_windows(TEXT, segments=2, scored=32, longest=64)
    judged = model(kernel=Affine(2, 16).spec)
    per_length = [row["segments"] for row in evaluate(judged, windows, lengths=(16, 64))]
    for segment, end in enumerate(windows.ends):
        tokens = TEXT[end - 65 : end].long()[None]
        want = float(token_losses(judged, tokens)[:, -32:].mean())
        assert per_length[1][segment] == pytest.approx(want, abs=1e-5)
    assert per_length[0] != per_length[1]


@pytest.mark.parametrize("bad", [False, True], ids=["fine", "an error"])
def test_evaluation_restores_the_mode_of_every_module(bad):
    judged = model().train()
    judged.blocks[0].eval()  # frozen, as some people do it
    modes = [module.training for module in judged.modules()]
    windows = TEXT[:17].long()[None] + (10_000 if bad else 0)
    with pytest.raises(IndexError) if bad else nullcontext():
        token_losses(judged, windows)
    assert [module.training for module in judged.modules()] == modes
    assert True in modes and False in modes


@pytest.mark.parametrize("shape", [(2, 1), (2, 0), (5,)])
def test_windows_without_a_prediction_are_refused(shape):
    with pytest.raises(ValueError, match="windows have shape"):
        token_losses(model(), torch.zeros(shape, dtype=torch.long))


def test_no_windows_have_no_losses():
    assert token_losses(model(), torch.zeros(0, 9, dtype=torch.long)).shape == (0, 8)


def test_buckets():
    losses = torch.arange(6.0).expand(2, 6)
    assert position_buckets(losses, [2, 4, 8]) == [
        {"from": 0, "to": 2, "loss": 0.5},
        {"from": 2, "to": 4, "loss": 2.5},
        {"from": 4, "to": 6, "loss": 4.5},
    ]


@pytest.mark.parametrize("name", ["steps", "batch", "length", "log_every", "checkpoint_every"])
def test_bad_training_settings_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} is 0"):
        TrainConfig(**({"steps": 1, "batch": 1, "length": 1} | {name: 0}))


def test_what_is_watched_stands_in_the_rows_and_changes_nothing(tmp_path):
    windows = evaluation_windows(TEXT, segments=4, scored=16, longest=16).windows(16)[0]

    def held_out(net):
        return token_losses(net, windows).mean()

    plain, watched, resumed = model(), model(), model()
    bare = train(plain, TEXT, CONFIG, seed=3, progress=False)
    seen = train(watched, TEXT, CONFIG, seed=3, progress=False, watch=held_out)
    assert same(plain, watched)
    assert [row["loss"] for row in seen.rows] == [row["loss"] for row in bare.rows]
    values = [row["watched"] for row in seen.rows]
    assert values[-1] == pytest.approx(float(held_out(watched))) and values[-1] < values[0]
    train(resumed, TEXT, replace(CONFIG), seed=3, progress=False, out=tmp_path, watch=held_out)
    again = train(model(), TEXT, CONFIG, seed=3, progress=False, out=tmp_path, watch=held_out)
    assert again.resumed_from == CONFIG.steps and again.rows == seen.rows
