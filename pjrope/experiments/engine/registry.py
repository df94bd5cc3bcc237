"""The experiments by name; their modules are imported only when one is asked for."""

from __future__ import annotations

from importlib import import_module

from .spec import Experiment, ExperimentError, check_name

__all__ = ["get", "names", "register", "where"]

_PLACES = {
    "adaptive_spectrum": "pjrope.experiments.functions.adaptive_spectrum.spectrum:EXPERIMENT",
    "adaptive_spectrum/frequencies": "pjrope.experiments.functions.adaptive_spectrum.spectrum:FREQUENCIES",
    "attention_retrieval": "pjrope.experiments.codes.attention_retrieval:EXPERIMENT",
    "byte_lm/allocation": "pjrope.experiments.text.allocation:EXPERIMENT",
    "byte_lm/baselines": "pjrope.experiments.text.byte_lm:BASELINES",
    "byte_lm/extrapolation": "pjrope.experiments.text.extrapolation:EXPERIMENT",
    "byte_lm/horizon": "pjrope.experiments.text.stretched:HORIZON",
    "byte_lm/lightcone": "pjrope.experiments.text.lightcone:EXPERIMENT",
    "byte_lm/long": "pjrope.experiments.text.byte_lm:LONG",
    "byte_lm/rates": "pjrope.experiments.text.tuned:RATES_GRID",
    "byte_lm/stretched": "pjrope.experiments.text.stretched:STRETCHED",
    "byte_lm/tuned": "pjrope.experiments.text.tuned:TUNED",
    "cache_quantization": "pjrope.experiments.codes.cache_quantization:EXPERIMENT",
    "cache_survival": "pjrope.experiments.sequences.cache_survival.survival:EXPERIMENT",
    "fixed_kernel": "pjrope.experiments.functions.fixed_kernel:EXPERIMENT",
    "fixed_kernel/grape": "pjrope.experiments.functions.fixed_kernel:GRAPE_GRID",
    "jet_probes": "pjrope.experiments.functions.jordan_probes:JETS_GRID",
    "jet_lm": "pjrope.experiments.sequences.jet_lm:EXPERIMENT",
    "kernel_probes": "pjrope.experiments.functions.jordan_probes:KERNELS",
    "lightcone_stability": "pjrope.experiments.codes.lightcone_stability:EXPERIMENT",
    "near_lags": "pjrope.experiments.text.near_lags:NEAR_LAGS",
    "near_lags/confirm": "pjrope.experiments.text.near_lags:CONFIRM",
    "near_lags/rivals": "pjrope.experiments.text.near_lags:RIVAL_GRID",
    "near_lags/wide": "pjrope.experiments.text.near_lags:WIDE",
    "needle_retrieval": "pjrope.experiments.sequences.needle_retrieval:EXPERIMENT",
    "ntk_flow": "pjrope.experiments.functions.ntk_flow:EXPERIMENT",
    "order_toy": "pjrope.experiments.sequences.order_toy:EXPERIMENT",
    "pair_resolution": "pjrope.experiments.codes.pair_resolution:EXPERIMENT",
    "phase_lm": "pjrope.experiments.sequences.phase_lm:EXPERIMENT",
    "phase_lm/mid": "pjrope.experiments.sequences.phase_lm:MID",
    "retrieval_resolution": "pjrope.experiments.codes.retrieval_resolution:EXPERIMENT",
    "rotary_precision": "pjrope.experiments.codes.rotary_precision:EXPERIMENT",
    "rotary_precision/lightcone": "pjrope.experiments.codes.rotary_precision_lightcone:EXPERIMENT",
    "signal_regression": "pjrope.experiments.sequences.signal_regression:EXPERIMENT",
    "structured_probes": "pjrope.experiments.functions.jordan_probes:STRUCTURED",
    "teacher_sequences": "pjrope.experiments.sequences.teachers.sequences:EXPERIMENT",
    "teacher_sequences/grape": "pjrope.experiments.sequences.teachers.sequences:GRAPE",
    "teacher_sequences/inits": "pjrope.experiments.sequences.teachers.sequences:INITS",
    "teacher_sequences/support": "pjrope.experiments.sequences.teachers.sequences:SUPPORT",
    "wikitext_bytes": "pjrope.experiments.text.wikitext:EXPERIMENT",
}


def register(name: str, place: str) -> None:
    """Add an experiment that lives outside the package.

    Args:
        name: experiment name; must not be taken by another place.
        place: "module:ATTRIBUTE" of the `Experiment`; worker processes import it from there.

    Raises:
        ExperimentError: for a name that is taken or a place of another form.
    """
    if _PLACES.get(check_name(name), place) != place:
        raise ExperimentError(f"experiment {name!r} is {_PLACES[name]}; choose another name")
    if place.count(":") != 1:
        raise ExperimentError(f"place {place!r}: write module:ATTRIBUTE")
    _PLACES[name] = place


def names() -> list[str]:
    """Return all experiment names, sorted."""
    return sorted(_PLACES)


def where(name: str) -> str:
    """Return the place, "module:ATTRIBUTE", of an experiment.

    Raises:
        ExperimentError: for an unknown name; the message lists the known ones.
    """
    if name not in _PLACES:
        raise ExperimentError(f"no experiment {name!r}; choose from: {', '.join(names())}")
    return _PLACES[name]


def get(name: str) -> Experiment:
    """Import and return an experiment.

    Raises:
        ExperimentError: for an unknown name, a place that is missing, or one that holds an
            experiment of another name.
    """
    return at(where(name), name)


def at(place: str, name: str) -> Experiment:
    """Return the experiment `name` found at `place`."""
    module_name, attribute = place.split(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:  # a dependency is missing: its own message says more
            raise
        raise ExperimentError(f"{name}: this installation has no module {module_name}") from None
    experiment = getattr(module, attribute, None)
    if not isinstance(experiment, Experiment) or experiment.name != name:
        raise ExperimentError(f"{name}: {place} is not the experiment of that name")
    return experiment
