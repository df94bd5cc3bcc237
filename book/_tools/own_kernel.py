"""Kernels of this interpreter, whatever kernels the user has registered.

Jupyter finds a kernel by its name, and one called ``python3`` in the user's folder wins over the
environment that runs the command. A chapter must run with the packages that this environment pins.
"""

from __future__ import annotations

from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager


class OwnKernelSpecs(KernelSpecManager):
    """Every name stands for a kernel of ``sys.executable``."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(resource_dir=RESOURCES, **get_kernel_dict())


def own_kernel() -> AsyncKernelManager:
    """A manager, for nbclient, of a kernel that runs in this interpreter."""
    return AsyncKernelManager(kernel_name="python3", kernel_spec_manager=OwnKernelSpecs())
