"""Values computed with 50 digits, independent of torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def golden(name: str) -> Any:
    """The golden file ``name.json``."""
    return json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf8"))
