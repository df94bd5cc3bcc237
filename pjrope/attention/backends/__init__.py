"""Ways to compute the same attention: ``eager`` is the truth, the others must agree with it.

Each is a module with ``refuses(problem)``, why it cannot take a call or None, and ``run(problem)``.
"""

from . import eager, flex, fold, sdpa, toeplitz

BACKENDS = {
    "eager": eager,
    "sdpa": sdpa,
    "toeplitz": toeplitz,
    "fold": fold,
    "flex": flex,
}
