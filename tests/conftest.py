"""One thread a test: tiny tensors gain nothing from two, and results do not depend on the machine."""

import gc

import torch

torch.set_num_threads(1)


def pytest_collection_finish():
    """What stands now stays to the end: no garbage collection walks through it again."""
    gc.collect()
    gc.freeze()
