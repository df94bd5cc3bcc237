"""Exported graphs answer at every length, or the kernel says why it cannot be exported."""

from __future__ import annotations

import pytest
import torch

from pjrope import NTK, ALiBi, Decoder, DecoderConfig, JordanRoPE, PJBias, RoPE
from pjrope.kernels import Affine, DampedRoPE, NearTable, NoPE, T5Bias

EXPORTED = {
    "none": NoPE(),
    "rope": RoPE(8),
    "half": RoPE(8, layout="half"),
    "dynamic": RoPE(8, extension=NTK(length=16)),
    "alibi": ALiBi(2),
    "affine": Affine(2, 16),
    "pj": PJBias(2, 16),
    "t5": T5Bias(2),
    "near": NearTable(2, 8),
    "rope_alibi": RoPE(8) + ALiBi(2),
}
REFUSED = {"jordan": JordanRoPE(8, 2, 16), "damped": DampedRoPE(8, 2, 16)}


def model_of(kernel, **more):
    config = DecoderConfig(
        vocab=13, width=16, layers=1, heads=2, length=16, kernel=kernel.spec, **more
    )
    return Decoder(config, seed=0).eval()


def exported(model, example=24, strict=False):
    length = torch.export.Dim("n", min=2, max=8192)
    tokens = torch.zeros(1, example, dtype=torch.int64)
    return torch.export.export(
        model, (tokens,), dynamic_shapes={"tokens": {1: length}}, strict=strict
    ).module()


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "window"), [*((name, None) for name in EXPORTED), ("none", 20), ("rope_alibi", 20)]
)
def test_one_graph_serves_every_length(name, window):
    """Lengths on both sides of each threshold of the plan, and of the window."""
    model = model_of(EXPORTED[name], window=window)
    graph = exported(model)
    for n in (2, 17, 300, 600):
        tokens = torch.randint(13, (1, n), generator=torch.Generator().manual_seed(n))
        torch.testing.assert_close(graph(tokens), model(tokens), rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(("name", "window"), [("rope_alibi", None), ("pj", 20)])
def test_the_strict_export_leaves_the_length_open_too(name, window):
    if not hasattr(torch.compiler, "is_exporting"):
        pytest.skip("before torch 2.7 a strict export cannot be told from a compilation")
    model = model_of(EXPORTED[name], window=window)
    graph = exported(model, strict=True)
    for n in (2, 17, 600):
        tokens = torch.randint(13, (1, n), generator=torch.Generator().manual_seed(n))
        torch.testing.assert_close(graph(tokens), model(tokens), rtol=1e-4, atol=1e-5)


def test_gradients_asked_for_do_not_fix_the_length():
    model = model_of(PJBias(2, 16))
    graph = exported(model)
    tokens = torch.arange(300)[None] % 13
    torch.testing.assert_close(graph(tokens), model(tokens), rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", REFUSED)
def test_a_kernel_that_looks_at_its_parameters_says_so_in_one_line(name):
    says = r"chooses origins by .* torch.export does not know: use torch.compile, or export RoPE or"
    with pytest.raises(ValueError, match=says):
        exported(model_of(REFUSED[name]))
    if hasattr(torch.compiler, "is_exporting"):
        # The tracer wraps what the code raised in an error of its own.
        with pytest.raises(RuntimeError, match=says):
            exported(model_of(REFUSED[name]), strict=True)
