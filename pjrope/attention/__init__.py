"""Attention: one call, several backends that agree, a layer and a cache."""

from .cache import KVCache
from .functional import Plan, attend, attend_plan
from .layer import AttentionLayer

__all__ = ["AttentionLayer", "KVCache", "Plan", "attend", "attend_plan"]
