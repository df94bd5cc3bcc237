"""One thread a test: tiny tensors gain nothing from two, and results do not depend on the machine."""

import torch

torch.set_num_threads(1)
