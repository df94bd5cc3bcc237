"""Diagnostics: what a bias is made of, in numbers that its parametrisation cannot fake."""

from .ablation import Part, leave_one_out_loss, left_out, parts_of, without
from .attention import attention_maps, attention_statistics
from .gauge import regauge
from .sectors import (
    GAUGE_DEPENDENT,
    GAUGE_FREE,
    change_from,
    initial_kernel,
    sector_functions,
    sector_summary,
)
from .spectra import (
    effective_mass,
    functional_energy,
    leave_one_order_out,
    order_components,
    order_mass,
)
from .views import Sector, kernels_by_layer, sectors_of

__all__ = [
    "GAUGE_DEPENDENT",
    "GAUGE_FREE",
    "Part",
    "Sector",
    "attention_maps",
    "attention_statistics",
    "change_from",
    "effective_mass",
    "functional_energy",
    "initial_kernel",
    "kernels_by_layer",
    "leave_one_order_out",
    "leave_one_out_loss",
    "left_out",
    "order_components",
    "order_mass",
    "parts_of",
    "regauge",
    "sector_functions",
    "sector_summary",
    "sectors_of",
    "without",
]
