"""Every kernel compiles for GPUs that are not here, spills no register and fits shared memory.

Triton brings its own assembler and cuobjdump. A sample runs always, all of it with PJROPE_WEEKLY=1.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

triton = pytest.importorskip("triton", reason="triton is not installed: see .ci/run")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("interpreted functions are not compiled", allow_module_level=True)

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from pjrope.attention.backends.triton import tuning  # noqa: E402
from pjrope.attention.backends.triton.backward import queries_kernel  # noqa: E402
from pjrope.attention.backends.triton.decode import split_kernel  # noqa: E402
from pjrope.attention.backends.triton.forward import forward_kernel  # noqa: E402
from pjrope.attention.backends.triton.keys import keys_kernel  # noqa: E402
from pjrope.attention.backends.triton.table import table_kernel  # noqa: E402

WEEKLY = os.environ.get("PJROPE_WEEKLY") == "1"
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
SHARED = {80: 166_912, 90: 232_448, 120: 101_376}  # bytes a program may have
FUNCTIONS = {
    "forward": forward_kernel,
    "queries": queries_kernel,
    "queries_table": queries_kernel,
    "keys": keys_kernel,
    "keys_only": keys_kernel,
    "values_only": keys_kernel,
    "table": table_kernel,
    "decode": split_kernel,
}
NAMES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}
OWN = ("q", "k", "v", "out", "grad", "dq", "dk", "dv")  # tensors in the number type of the call
INTEGERS = {"q_seg": "*i32", "k_seg": "*i32", "keep": "*i8"}
OTHERS = ("table", "lse", "mean", "d_table", "halves", "parts", "tops", "totals")
PLAIN: dict[str, bool] = {}
MASKED = {"SEGMENTS": True, "KEEP": True, "WINDOW": True}


def source(kind: str, width: int, number: torch.dtype, sm: int, masks: dict[str, bool]):
    """The source of a launch and its options, as ``launch`` makes it."""
    tile = tuning.tile_of(kind, width, number, (sm // 10, sm % 10), bool(masks))
    options, function = tile.options(), FUNCTIONS[kind]
    fixed = {
        **{"D": width, "DV": width, "PAD": max(16, width), "PAD_V": max(16, width)},
        **{"CAUSAL": 1, "WINDOW": False, "SEGMENTS": False, "KEEP": False, "BIAS": True},
        **{"ROWS": options.pop("ROWS"), "COLUMNS": options.pop("COLUMNS"), "SIZE": tile.rows},
        **{"LEARNS": kind == "queries_table", "PRECISION": "tf32"},
        **{"FOR_K": kind != "values_only", "FOR_V": kind != "keys_only"},
        **masks,
    }
    if number == torch.float32:
        fixed["PRECISION"] = "tf32x3"
    absent = {"d_table"} if not fixed["LEARNS"] else set()
    absent |= set() if fixed["SEGMENTS"] else {"q_seg", "k_seg"}
    absent |= set() if fixed["KEEP"] else {"keep"}
    signature, constants, aligned = {}, {}, {}
    for n, name in enumerate(function.arg_names):
        if name in fixed or name in absent:
            signature[name], constants[(n,)] = "constexpr", fixed.get(name)
            continue
        pointer = {**INTEGERS, **dict.fromkeys(OWN, f"*{NAMES[number]}")}
        pointer |= dict.fromkeys(OTHERS, "*fp32")
        signature[name] = pointer.get(name, "fp32" if name == "scale" else "i32")
        if name in pointer or re.fullmatch(r"s[qkv][bhn]", name):
            aligned[(n,)] = [["tt.divisibility", 16]]
    return ASTSource(function, signature, constexprs=constants, attrs=aligned), options


CASES = [
    (kind, width, number, sm, masks)
    for kind in tuning.KINDS
    for width in (16, *tuning.WIDTHS)
    for number in NAMES
    for sm in SHARED
    for masks in (PLAIN, MASKED)
    if tuning.fits(width, number)
    and (kind in ("keys_only", "values_only")) <= (width > tuning.TOGETHER)
    and (kind == "keys") <= (width <= tuning.TOGETHER)
]
SAMPLE = [
    ("forward", 64, torch.bfloat16, 90, PLAIN),
    ("queries_table", 64, torch.bfloat16, 80, PLAIN),
    ("keys", 64, torch.float16, 80, PLAIN),
    ("forward", 64, torch.bfloat16, 120, MASKED),
    ("decode", 128, torch.bfloat16, 90, PLAIN),
]


def named(case) -> str:
    kind, width, number, sm, masks = case
    return f"{kind}-{width}-{NAMES[number]}-sm{sm}-{'masked' if masks else 'plain'}"


def check(case, folder: Path) -> str | None:
    """What is wrong with a launch, or None."""
    kind, width, number, sm, masks = case
    made, options = source(kind, width, number, sm, masks)
    compiled = triton.compile(made, target=GPUTarget("cuda", sm, 32), options=options)
    file = folder / "kernel.cubin"
    file.write_bytes(compiled.asm["cubin"])
    command = [CUOBJDUMP, "--dump-resource-usage", file]
    usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    stack = [int(n) for n in re.findall(r"STACK:(\d+)", usage)]
    assert stack, usage
    if max(stack):
        return f"spills {max(stack)} bytes"
    shared = compiled.metadata.shared
    return None if shared <= SHARED[sm] else f"needs {shared} bytes of shared memory"


@pytest.mark.parametrize("case", CASES if WEEKLY else SAMPLE, ids=named)
def test_compiles_without_spills(case, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    assert check(case, tmp_path) is None


def test_the_sample_is_of_the_cases():
    assert all(case in CASES for case in SAMPLE)
    assert {case[0] for case in CASES} == set(tuning.KINDS)
