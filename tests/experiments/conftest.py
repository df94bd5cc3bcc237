from __future__ import annotations

import fake_experiments
import pytest

from pjrope.experiments.engine import registry


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    """Register the fake experiments for one test."""
    for name, place in fake_experiments.PLACES.items():
        monkeypatch.setitem(registry._PLACES, name, place)
