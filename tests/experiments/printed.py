"""Comparing numbers with the digits that a paper or a protocol prints."""

from __future__ import annotations

__all__ = ["as_printed"]


def as_printed(text: str, number: float, units: float = 0.5) -> bool:
    """Whether a number is within so many units of the last printed digit."""
    digits = text.split("e")[0]
    places = len(digits.split(".")[1]) if "." in digits else 0
    unit = 10.0 ** (int(text.split("e")[1]) if "e" in text else 0) * 10.0**-places
    return abs(number - float(text)) <= 1.0002 * units * unit
