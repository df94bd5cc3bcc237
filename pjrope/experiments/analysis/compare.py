"""Old names, until every room imports them from `statistics` and `tables`."""

from .statistics import (
    Difference,
    Summary,
    paired_difference,
    single_seed,
    summary,
    verdict,
)
from .tables import table

__all__ = [
    "Difference",
    "Summary",
    "paired_difference",
    "single_seed",
    "summary",
    "table",
    "verdict",
]
