"""Libraries that a bare install leaves out, asked for by name and with the command that brings them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class MissingLibrary(ImportError):
    """A library of an extra is not installed; the message is one line with the remedy."""


def need(module: str, extra: str) -> ModuleType:
    """Import a library that only an extra of the package brings.

    Args:
        module: name of the module, such as "mido".
        extra: extra of the package that installs it: "book", "music", "hf", "xt" or "ray".

    Returns:
        The module.

    Raises:
        ImportError: when it is not installed. An import that fails inside an installed library
            raises its own error.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name != top:
            raise
        raise MissingLibrary(
            f'{top} is not installed: pip install "pjrope[{extra}]"', name=top
        ) from None
