"""Attention that would reach over several devices is refused in one line that names the way out."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from pjrope import ALiBi, attend, attend_plan


@pytest.fixture
def mesh(tmp_path):
    """A mesh of one process: placements are the same as on many."""
    if not dist.is_available():
        pytest.skip("this torch has no torch.distributed")
    from torch.distributed.device_mesh import init_device_mesh

    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_tokens_spread_over_devices_are_refused_with_what_to_use_instead(mesh):
    from torch.distributed.tensor import Shard, distribute_tensor

    x = torch.randn(1, 2, 8, 4, generator=torch.Generator().manual_seed(0))
    spread = distribute_tensor(x, mesh, [Shard(2)])
    for call in (attend, attend_plan):
        with pytest.raises(
            ValueError, match=r"k is spread over devices .*k\.to_local\(\)"
        ) as caught:
            call(x, spread, x, ALiBi(2))
        assert "\n" not in str(caught.value) and "context_parallel" in str(caught.value)
    heads = distribute_tensor(x, mesh, [Shard(1)])
    local = (heads.to_local(),) * 3
    assert torch.equal(attend(*local, ALiBi(2)), attend(x, x, x, ALiBi(2)))


def test_keys_on_another_device_are_named():
    x = torch.zeros(1, 2, 8, 4)
    with pytest.raises(ValueError, match="q is on cpu and v on meta: attend works on one device"):
        attend(x, x, x.to("meta"), ALiBi(2))
