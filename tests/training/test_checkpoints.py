"""What is saved comes back as it was; what cannot be saved or read says so in one line."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file, save_file

from pjrope import ALiBi, Decoder, DecoderConfig, RoPE, train
from pjrope.kernels import NearTable, PJBias, PJRotary
from pjrope.training import CheckpointError, TrainConfig, load_model, save_model
from pjrope.training.checkpoints import load_tensors

TEXT = torch.randint(0, 11, (400,), generator=torch.Generator().manual_seed(0))
SHORT = TrainConfig(steps=4, batch=2, length=8, log_every=2, checkpoint_every=2)


def model(kernel=None, seed=0):
    kernel = RoPE(8) + NearTable(2, 3) if kernel is None else kernel
    config = DecoderConfig(vocab=11, width=16, layers=2, heads=2, length=8, kernel=kernel.spec)
    return Decoder(config, seed=seed)


def state_equal(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(
        a[n].dtype == b[n].dtype and torch.equal(a[n], b[n]) for n in a
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_number_types_come_back(tmp_path, dtype):
    saved = model().to(dtype)
    save_model(tmp_path / "m.safetensors", saved)
    loaded = load_model(tmp_path / "m.safetensors")
    assert state_equal(saved, loaded)
    assert loaded.embedding.weight.dtype == dtype
    table = loaded.blocks[0].attention.kernel.parts[1]
    assert all(p.dtype in (torch.float32, torch.float64) for p in table.parameters())


def test_frozen_parameters_stay_frozen(tmp_path):
    saved = model()
    saved.blocks[0].attention.kernel.freeze("table")
    saved.embedding.weight.requires_grad_(False)
    save_model(tmp_path / "m.safetensors", saved)
    loaded = load_model(tmp_path / "m.safetensors")
    frozen = [n for n, p in loaded.named_parameters() if not p.requires_grad]
    assert frozen == [n for n, p in saved.named_parameters() if not p.requires_grad]
    assert len(frozen) == 2


def test_wrapped_models_are_looked_through(tmp_path):
    saved = model()
    expected = saved(TEXT[None, :8])
    inner = torch.compile(saved.blocks[1])  # nothing is compiled before the first call
    saved.blocks[1] = inner
    save_model(tmp_path / "m.safetensors", torch.compile(saved))
    names = load_file(tmp_path / "m.safetensors")
    assert not any("_orig_mod" in name for name in names)
    torch.testing.assert_close(load_model(tmp_path / "m.safetensors")(TEXT[None, :8]), expected)
    with pytest.raises(ValueError, match="Linear is no Decoder"):
        save_model(tmp_path / "n.safetensors", torch.nn.Linear(2, 2))


def test_a_kernel_shared_by_layers_comes_back_shared(tmp_path):
    saved = model()
    saved.blocks[1].attention.kernel = saved.blocks[0].attention.kernel
    save_model(tmp_path / "m.safetensors", saved)
    loaded = load_model(tmp_path / "m.safetensors")
    assert loaded.blocks[0].attention.kernel is loaded.blocks[1].attention.kernel
    assert state_equal(saved, loaded)
    result = train(saved, TEXT, SHORT, seed=0, out=tmp_path / "run", progress=False)
    again = model()
    again.blocks[1].attention.kernel = again.blocks[0].attention.kernel
    assert train(again, TEXT, SHORT, seed=0, out=tmp_path / "run").resumed_from == 4
    assert state_equal(saved, again) and result.resumed_from == 0


@pytest.mark.parametrize("kernel", [PJRotary(8, 8), PJBias(2, 8), RoPE(8) + PJBias(2, 8), ALiBi(2)])
def test_shared_kernels_of_several_tensors_come_back_shared(kernel, tmp_path):
    saved = model(kernel)
    saved.blocks[1].attention.kernel = saved.blocks[0].attention.kernel
    save_model(tmp_path / "m.safetensors", saved)
    loaded = load_model(tmp_path / "m.safetensors")
    assert loaded.blocks[0].attention.kernel is loaded.blocks[1].attention.kernel
    save_model(tmp_path / "apart.safetensors", model(kernel))
    apart = load_model(tmp_path / "apart.safetensors")
    assert apart.blocks[0].attention.kernel is not apart.blocks[1].attention.kernel


def test_the_checkpoint_of_a_training_is_a_model_too(tmp_path):
    saved = model()
    saved.blocks[1].attention.kernel = saved.blocks[0].attention.kernel
    saved.embedding.weight.requires_grad_(False)
    train(saved, TEXT, SHORT, seed=0, out=tmp_path, progress=False)
    loaded = load_model(tmp_path / "checkpoint.safetensors")
    assert state_equal(saved, loaded)
    assert loaded.blocks[0].attention.kernel is loaded.blocks[1].attention.kernel
    assert [n for n, p in loaded.named_parameters() if not p.requires_grad] == ["embedding.weight"]


def test_a_training_of_another_module_is_no_decoder(tmp_path):
    other = torch.nn.Sequential(torch.nn.Embedding(11, 11))
    train(other, TEXT, SHORT, seed=0, out=tmp_path, progress=False)
    with pytest.raises(CheckpointError, match="holds Sequential and no Decoder"):
        load_model(tmp_path / "checkpoint.safetensors")


def rewritten(path, **changes):
    tensors, metadata = load_tensors(path)
    metadata["config"] = metadata["config"] | changes
    save_file(tensors, path, metadata={k: json.dumps(v) for k, v in metadata.items()})


@pytest.mark.parametrize(
    "changes",
    [
        {"colour": 1},
        {"kernel": {"kernel": "Nonsense"}},
        {"kernel": {"kernel": "ALiBi"}},
        {"width": 24},
    ],
    ids=str,
)
def test_configurations_that_do_not_fit_are_one_error(tmp_path, changes):
    path = tmp_path / "m.safetensors"
    save_model(path, model(ALiBi(2)))
    rewritten(path, **changes)
    with pytest.raises(CheckpointError, match="does not fit its configuration"):
        load_model(path)


def test_new_files_have_the_permissions_of_new_files(tmp_path):
    old = os.umask(0o022)
    try:
        save_model(tmp_path / "m.safetensors", model())
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "m.safetensors").stat().st_mode) == 0o644


def test_the_home_folder_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    save_model("~/m.safetensors", model())
    assert load_model("~/m.safetensors") and (tmp_path / "m.safetensors").exists()


def test_a_full_disk_leaves_the_old_file_and_one_line(tmp_path):
    path = tmp_path / "m.safetensors"
    save_model(path, model())
    before = path.read_bytes()
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from pjrope.training import load_model, save_model\n"
        "model = load_model(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        "try:\n    save_model(sys.argv[1], model)\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    assert resource.RLIMIT_FSIZE is not None
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.stdout.startswith("CheckpointError") and "could not be written" in done.stdout
    assert done.stdout.count("\n") == 1
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


# Folders of trainings ---------------------------------------------------------------------------


def test_the_last_two_checkpoints_stay_and_a_damaged_last_one_is_passed_over(tmp_path):
    whole = model()
    train(whole, TEXT, SHORT, seed=0, out=tmp_path, progress=False)
    assert load_tensors(tmp_path / "checkpoint.safetensors")[1]["step"] == 4
    assert load_tensors(tmp_path / "previous.safetensors")[1]["step"] == 2
    (tmp_path / "checkpoint.safetensors").write_bytes(b"damaged")
    again = model()
    with pytest.warns(UserWarning, match=r"no readable checkpoint .*going on from previous"):
        result = train(again, TEXT, SHORT, seed=0, out=tmp_path, progress=False)
    assert result.resumed_from == 2 and state_equal(whole, again)


def test_weights_that_are_not_finite_replace_no_checkpoint(tmp_path):
    broken = model()

    def poisoned(outputs, targets):
        loss = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())
        poisoned.calls += 1
        if poisoned.calls == 4:  # a finite loss whose gradient is nan
            return loss + (outputs * 0.0).sum().abs().sqrt()
        return loss

    poisoned.calls = 0
    with pytest.raises(FloatingPointError, match=r"no longer finite at step 4: lower lr=0\.003"):
        train(broken, TEXT, SHORT, seed=0, out=tmp_path, progress=False, loss=poisoned)
    tensors, metadata = load_tensors(tmp_path / "checkpoint.safetensors")
    assert metadata["step"] == 2
    assert all(bool(torch.isfinite(t).all()) for t in tensors.values())


def test_two_trainings_in_one_folder_are_refused(tmp_path):
    with (
        FileLock(tmp_path / "train.lock"),
        pytest.raises(CheckpointError, match="in use by another training"),
    ):
        train(model(), TEXT, SHORT, seed=0, out=tmp_path, progress=False)
    assert train(model(), TEXT, SHORT, seed=0, out=tmp_path, progress=False).resumed_from == 0


def test_a_constant_rate_trains_on_for_more_steps(tmp_path):
    longer = TrainConfig(steps=8, batch=2, length=8, log_every=2, checkpoint_every=2)
    whole, parts = model(), model()
    rows = train(whole, TEXT, longer, seed=0, progress=False).rows
    train(parts, TEXT, SHORT, seed=0, out=tmp_path, progress=False)
    again = model()
    result = train(again, TEXT, longer, seed=0, out=tmp_path, progress=False)
    assert result.resumed_from == 4 and result.rows == rows and state_equal(whole, again)
    with pytest.raises(CheckpointError, match=r"config\.steps was 8, is 6"):
        train(model(), TEXT, TrainConfig(**{**vars(longer), "steps": 6}), seed=0, out=tmp_path)


def test_a_falling_rate_is_another_run(tmp_path):
    falling = TrainConfig(**{**vars(SHORT), "final_lr": 0.1})
    train(model(), TEXT, falling, seed=0, out=tmp_path, progress=False)
    more = TrainConfig(**{**vars(falling), "steps": 8})
    with pytest.raises(CheckpointError, match=r"config\.steps was 4, is 8"):
        train(model(), TEXT, more, seed=0, out=tmp_path, progress=False)


def test_the_best_weights_are_kept(tmp_path):
    seen = iter([3.0, 1.0, 2.0])
    config = TrainConfig(**{**vars(SHORT), "steps": 6})
    train(
        model(), TEXT, config, seed=0, out=tmp_path, progress=False,
        watch=lambda _: next(seen), keep_best=True,
    )  # fmt: skip
    assert load_tensors(tmp_path / "best.safetensors")[1] == {"step": 4, "watched": 1.0}
    with pytest.raises(ValueError, match="keep_best=True needs watch"):
        train(model(), TEXT, config, seed=0, keep_best=True)
