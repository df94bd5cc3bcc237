"""The experiments by name; their modules are imported only when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from .spec import Experiment, ExperimentError, check_name

__all__ = ["ROOMS", "get", "names", "register", "room", "where"]

# Folder → experiment → "module:ATTRIBUTE" in that folder.
ROOMS: Mapping[str, Mapping[str, str]] = {
    "functions": {
        "adaptive_spectrum": "adaptive_spectrum.spectrum:EXPERIMENT",
        "adaptive_spectrum/frequencies": "adaptive_spectrum.spectrum:FREQUENCIES",
        "fixed_kernel": "fixed_kernel:EXPERIMENT",
        "fixed_kernel/grape": "fixed_kernel:GRAPE_GRID",
        "jet_probes": "jordan_probes:JETS_GRID",
        "kernel_probes": "jordan_probes:KERNELS",
        "ntk_flow": "ntk_flow:EXPERIMENT",
        "structured_probes": "jordan_probes:STRUCTURED",
    },
    "codes": {
        "attention_retrieval": "attention_retrieval:EXPERIMENT",
        "cache_quantization": "cache_quantization:EXPERIMENT",
        "lightcone_stability": "lightcone_stability:EXPERIMENT",
        "pair_resolution": "pair_resolution:EXPERIMENT",
        "retrieval_resolution": "retrieval_resolution:EXPERIMENT",
        "rotary_precision": "rotary_precision:EXPERIMENT",
        "rotary_precision/lightcone": "rotary_precision_lightcone:EXPERIMENT",
    },
    "music": {
        "music_lm": "music_lm:MUSIC_LM",
        "music_lm/rivals": "music_lm:RIVALS_GRID",
        "music_motif": "music_motif:EXPERIMENT",
    },
    "sequences": {
        "cache_survival": "cache_survival.survival:EXPERIMENT",
        "jet_lm": "jet_lm:EXPERIMENT",
        "needle_retrieval": "needle_retrieval:EXPERIMENT",
        "order_toy": "order_toy:EXPERIMENT",
        "phase_lm": "phase_lm:EXPERIMENT",
        "phase_lm/mid": "phase_lm:MID",
        "signal_regression": "signal_regression:EXPERIMENT",
        "teacher_sequences": "teachers.sequences:EXPERIMENT",
        "teacher_sequences/grape": "teachers.sequences:GRAPE",
        "teacher_sequences/inits": "teachers.sequences:INITS",
        "teacher_sequences/support": "teachers.sequences:SUPPORT",
    },
    "text": {
        "byte_lm/allocation": "allocation:EXPERIMENT",
        "byte_lm/baselines": "byte_lm:BASELINES",
        "byte_lm/extrapolation": "extrapolation:EXPERIMENT",
        "byte_lm/horizon": "stretched:HORIZON",
        "byte_lm/lightcone": "lightcone:EXPERIMENT",
        "byte_lm/long": "byte_lm:LONG",
        "byte_lm/rates": "tuned:RATES_GRID",
        "byte_lm/stretched": "stretched:STRETCHED",
        "byte_lm/tuned": "tuned:TUNED",
        "near_lags": "near_lags:NEAR_LAGS",
        "near_lags/confirm": "near_lags:CONFIRM",
        "near_lags/rivals": "near_lags:RIVAL_GRID",
        "near_lags/samples": "samples:EXPERIMENT",
        "near_lags/wide": "near_lags:WIDE",
        "wikitext_bytes": "wikitext:EXPERIMENT",
        "your_model/extension": "extension:EXPERIMENT",
    },
}
_PLACES = {
    name: f"pjrope.experiments.{room}.{place}"
    for room, places in ROOMS.items()
    for name, place in places.items()
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


def room(name: str) -> str:
    """Return the folder of experiments that one of the package's own lies in, such as "codes".

    Raises:
        ExperimentError: for an unknown name, or an experiment from outside the package.
    """
    place = where(name)
    for folder, places in ROOMS.items():
        if name in places:
            return folder
    raise ExperimentError(f"experiment {name!r} is outside the package, at {place}")


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
