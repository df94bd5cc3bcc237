"""Ways to compute the same attention: ``eager`` is the truth, the others must agree with it."""

from . import eager, sdpa

BACKENDS = {"eager": eager.run, "sdpa": sdpa.run}
