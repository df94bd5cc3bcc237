"""Small tiles, and an interpreter that does not prepare itself anew for every call of a helper."""

from __future__ import annotations

import os

import pytest

if os.environ.get("TRITON_INTERPRET") != "1":
    raise RuntimeError("run tests/attention/test_triton.py, which starts these in the interpreter")

import triton.language as tl
from triton.runtime import interpreter

from pjrope.attention.backends.triton import launch
from pjrope.attention.backends.triton.tuning import Tile

_prepared = interpreter.InterpretedFunction.__call__
_dot = interpreter.InterpreterBuilder.create_dot


def _dot_of_bf16(self, a, b, acc, *options):
    """The interpreter keeps bf16 as 16-bit integers and would multiply those."""
    a, b = (self.create_fp_ext(x, tl.float32) if x.dtype.scalar.is_bf16() else x for x in (a, b))
    return _dot(self, a, b, acc, *options)


def _called(self, *args, **kwargs):
    if self.fn.__module__.startswith("pjrope"):  # with the same globals as the kernel that calls
        return self.rewrite()(*args, **kwargs)
    return _prepared(self, *args, **kwargs)


@pytest.fixture(autouse=True, scope="session")
def interpreter_repaired():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter.InterpretedFunction, "__call__", _called)
        patch.setattr(interpreter.InterpreterBuilder, "create_dot", _dot_of_bf16)
        yield


@pytest.fixture
def tiles(monkeypatch):
    """Set the size of tiles; where they must be square, the smaller side counts."""

    def choose(rows: int, columns: int) -> None:
        side = min(rows, columns)

        def tile_of(kind, *_):
            square = kind in ("queries_table", "table")
            return Tile(side, side, 4, 1) if square else Tile(rows, columns, 4, 1)

        monkeypatch.setattr(launch, "tile_of", tile_of)

    return choose
