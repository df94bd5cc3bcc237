"""Ways to compute the same attention: ``eager`` is the truth, the others must agree with it."""

from . import eager, flex, fold, sdpa, toeplitz

BACKENDS = {
    "eager": eager.run,
    "sdpa": sdpa.run,
    "toeplitz": toeplitz.run,
    "fold": fold.run,
    "flex": flex.run,
}
