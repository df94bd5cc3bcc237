"""Torch's own wrappers, two processes on the CPU: a model with learned positions steps as it does alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from pjrope.kernels import PJBias, RoPE
from pjrope.models import Decoder, DecoderConfig

ROOT = Path(__file__).resolve().parents[2]
WORKER = """
import json, sys
import torch, torch.distributed as dist
from tests.training.test_wrappers import WRAPPERS, step, model

torch.set_num_threads(1)
dist.init_process_group("gloo")
facts = {
    name: step(wrap(model()), rank=dist.get_rank(), of=dist.get_world_size())
    for name, wrap in WRAPPERS.items()
}
open(f"{sys.argv[1]}/{dist.get_rank()}.json", "w").write(json.dumps(facts))
dist.destroy_process_group()
"""


def ddp(module):
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(module)


def fsdp2(module):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for block in module.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(module, mesh=mesh)


WRAPPERS = {"ddp": ddp, "fsdp2": fsdp2}


def model():
    kernel = (RoPE(8) + PJBias(2, 16)).spec
    config = DecoderConfig(vocab=16, width=16, layers=2, heads=2, length=16, kernel=kernel)
    return Decoder(config, seed=0)


def step(module, *, rank: int = 0, of: int = 1):
    """Loss before and after one step on this process' half of the rows; the weights, whole."""
    tokens = torch.randint(16, (4, 17), generator=torch.Generator().manual_seed(3))
    rows = tokens.tensor_split(of)[rank]
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    losses = []
    for _ in range(2):
        loss = cross_entropy(module(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    whole = [getattr(p, "full_tensor", lambda p=p: p)() for p in module.parameters()]
    return {"losses": losses, "weights": [p.detach().double().flatten().tolist() for p in whole]}


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> list[dict]:
    """What each of two processes has of every wrapper: one start of both for all."""
    folder = tmp_path_factory.mktemp("two")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = folder / "worker.py"
    script.write_text(WORKER)
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, script, folder],
            env={**os.environ, **shared, "RANK": str(n), "LOCAL_RANK": str(n)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(2)
    ]
    errors = [process.communicate(timeout=300)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], errors
    return [json.loads((folder / f"{n}.json").read_text()) for n in range(2)]


@pytest.mark.parametrize("name", WRAPPERS)
def test_two_wrapped_processes_step_as_one(name, two):
    facts = [process[name] for process in two]
    alone = step(model())
    both = [sum(pair) / 2 for pair in zip(*(f["losses"] for f in facts), strict=True)]
    assert both == pytest.approx(alone["losses"], abs=1e-6)
    assert facts[0]["weights"] == facts[1]["weights"]
    for own, one in zip(facts[0]["weights"], alone["weights"], strict=True):
        assert own == pytest.approx(one, abs=1e-6)
