"""The study of extending a trained model: its ways, its planted phrases and its rules."""

from __future__ import annotations

import pytest
import torch

from pjrope.experiments import Result, get, run
from pjrope.experiments.text.extension import (
    STRETCHES,
    TUNED,
    copy_weights,
    make_model,
    recall_windows,
)
from pjrope.experiments.text.extension_rules import extension_words
from pjrope.kernels import Affine, LightCone, RoPE
from pjrope.positions import NTK, PI, YaRN

NAME = "your_model/extension"
SETTINGS = get(NAME).presets["smoke"].settings


def kernel(method, factor=4.0):
    return make_model(method, factor, SETTINGS, 16, seed=0).blocks[0].attention.kernel


def test_ways_are_what_they_are_called():
    assert kernel("trained").extension is None and kernel("continued").extension is None
    assert kernel("pi").extension == PI(4.0) and kernel("ntk").extension == NTK(4.0)
    assert kernel("yarn").extension == YaRN(4.0, SETTINGS["length"])
    parts = [type(part) for part in kernel("recency_lc").parts]
    assert parts == [RoPE, Affine, LightCone] and len(kernel("recency").parts) == 2


def test_copies_share_the_backbone_and_nothing_else_changes():
    source = make_model("trained", 1.0, SETTINGS, 16, seed=1)
    tokens = torch.arange(12)[None] % 16
    same = copy_weights(make_model("continued", 1.0, SETTINGS, 16, seed=2), source)
    assert torch.equal(same(tokens), source(tokens))
    attached = copy_weights(make_model("recency_lc", 1.0, SETTINGS, 16, seed=2), source)
    for part in attached.modules():
        if isinstance(part, Affine):
            torch.nn.init.constant_(part.raw_slope, -40.0)
        if isinstance(part, LightCone):
            torch.nn.init.zeros_(part.zeta_re)
            torch.nn.init.zeros_(part.zeta_im)
    torch.testing.assert_close(attached(tokens), source(tokens), rtol=0, atol=1e-6)
    wide = make_model("pi", 4.0, dict(SETTINGS) | {"width": 64}, 16, seed=2)
    with pytest.raises(RuntimeError, match="size mismatch"):
        copy_weights(wide, source)
    with pytest.raises(ValueError, match=r"blocks\.1.* is missing"):
        copy_weights(make_model("pi", 4.0, dict(SETTINGS) | {"layers": 2}, 16, seed=2), source)


def test_phrases_stand_where_they_should():
    text = torch.arange(5000, dtype=torch.int32)
    settings = {
        "lengths": [64, 256],
        "recall": {"distances": [32, 100], "windows": 3, "phrase": 16},
    }
    planted = recall_windows(text, settings)
    assert set(planted) == {0, 32, 100} and planted[0].shape == (3, 257)
    for distance, windows in planted.items():
        phrase = windows[:, -16:]
        assert bool((phrase.diff() == 1).all())  # one piece of the text
        if distance:
            earlier = windows[:, -16 - distance : windows.shape[1] - distance]
            assert torch.equal(phrase, earlier)
            assert int((windows != planted[0]).sum()) == 3 * 16
        else:
            assert not torch.isin(phrase, windows[:, :-16]).any()


def test_one_seed_of_the_smoke_preset():
    result = run(NAME, store=False, progress=False)
    methods = {row["method"] for row in result.rows if row["kind"] == "loss"}
    assert methods == {"trained", *TUNED, *(f"{m}_wider" for m in STRETCHES)}
    curves = result.where(kind="training").rows
    assert {row["tokens"] for row in curves if row["method"] != "trained"} == {4 * 4 * 128}
    at = {(r["method"], r["length"]): r["loss"] for r in result.rows if r["kind"] == "loss"}
    assert at["pi", 128] == at["pi_wider", 128] and at["pi", 256] != at["pi_wider", 256]
    assert extension_words(result) == [
        "The study of extensions claims nothing yet: it takes two seeds."
    ]


def told(losses, gains=(0.5, 0.2), seeds=(0, 1, 2)):
    rows = [
        {"kind": "loss", "method": m, "seed": s, "length": n, "loss": loss + 0.001 * (s % 2)}
        for m, curve in losses.items()
        for n, loss in zip((64, 128, 256), curve, strict=True)
        for s in seeds
    ]
    rows += [
        {"kind": "recall", "method": m, "seed": s, "distance": d, "gain": gain + 0.001 * s}
        for m in losses
        for d, gain in zip((32, 100), gains, strict=True)
        for s in seeds
    ]
    return extension_words(Result(rows, {"settings": {"tuned_length": 128, "length": 64}}))


REFERENCES = {"trained": (1.7, 2.5, 4.0), "continued": (1.72, 1.7, 2.5)}


def test_the_rules():
    ways = {
        "pi": (1.70, 1.70, 1.71),  # all three
        "ntk": (1.70, 1.70, 1.90),  # rises
        "yarn": (1.80, 1.70, 1.70),  # loses short texts
        "recency": (1.70, 2.50, 2.50),  # no gain
    }
    *lines, last = told(REFERENCES | ways)
    assert lines[0].startswith("pi: extends, holds, keeps (")
    assert lines[1].startswith("ntk: extends, not holds, keeps (")
    assert lines[2].startswith("yarn: extends, holds, not keeps (")
    assert lines[3].startswith("recency: not extends, holds, keeps (")
    assert all("Recalls to 100 bytes" in line for line in lines)
    assert last == "Recommended for contexts of 256: pi."
    twin = told(REFERENCES | {"pi": (1.7, 1.7, 1.71), "ntk": (1.7, 1.7, 1.712)})
    assert twin[-1] == "Recommended for contexts of 256: pi; not told apart from it: ntk."
    none = told(REFERENCES | {"ntk": (1.7, 1.7, 1.9)}, gains=(0.5, 0.05))
    assert "Recalls to 32 bytes" in none[0] and none[-1].startswith("No way extends")
    assert "Recalls at no distance" in told(REFERENCES | ways, gains=(0.0, 0.5))[0]
    assert told({"pi": (1, 1, 1)}) == [] and "two seeds" in told(REFERENCES | ways, seeds=(0,))[0]
