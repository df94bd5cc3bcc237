"""Triton kernels in Triton's interpreter: numpy runs each program in turn, no GPU needed.

``tests/attention/test_triton.py`` runs the ``check_*.py`` here in a process of their own, since
Triton decides at import whether its functions are interpreted.
"""
