"""Ways to compute the same attention: ``eager`` is the truth, the others must agree with it.

Each is a module with ``refuses(call)``, why it cannot take a call or None, and ``run(call)``; a call
is checked (:class:`..call.Call`), :class:`..scores.Scores` has its logits, biases and masks by block.
"""

from . import eager, flex, fold, sdpa, toeplitz, triton

BACKENDS = {
    "eager": eager,
    "sdpa": sdpa,
    "toeplitz": toeplitz,
    "fold": fold,
    "flex": flex,
    "triton": triton,
}
