"""The table of real models in the appendix, written from ``pjrope.data.model_facts``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

HEAD = (
    *("model", "year", "method", "base", "channels turned", "scaling", "context trained, offered"),
    *("longest period", "unfinished turns", "read in"),
)
Row = Mapping[str, Any]


def number(value: Any) -> str:
    """A count or a base with its thousands apart; a dash for what a row does not hold."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:g}"


def scaling(row: Row) -> str:
    """Its kind and factor, as the configuration names them."""
    found = row["scaling"]
    if not isinstance(found, Mapping):
        return "–"
    factor = found.get("factor")
    return str(found.get("type", "named without a type")) + (f" × {factor:g}" if factor else "")


def source(row: Row) -> str:
    """Which public file it was read in; what was read in none is marked."""
    if not row["verified"]:
        return "**not verified**"
    where = ", ".join(row["source"])
    doubtful = ", ".join(row["unverified_fields"] or ())
    return where + (f"; **not verified:** {doubtful}" if doubtful else "")


def cells(row: Row) -> list[str]:
    derived = row["derived"] or {}
    turned = "–" if row["rotary_dim"] is None else f"{row['rotary_dim']} of {row['head_dim']}"
    broken = derived.get("pairs_with_period_over_original_context")
    pairs = derived.get("pairs_rotated")
    return [
        row["key"],
        str(row["year"]),
        row["method"],
        number(row["rope_theta"]),
        turned,
        scaling(row),
        f"{number(row['original_context'])}, {number(row['context'])}",
        number(derived.get("longest_period")),
        "–" if broken is None else f"{broken} of {pairs}",
        source(row),
    ]


def models_page(
    rows: Iterable[Row], about: Mapping[str, Any], table: Callable[[Any, Any], str]
) -> str:
    """The table, and where its rows come from.

    Args:
        rows: of ``model_facts()``.
        about: of ``facts_about()``.
        table: writes a Markdown table from a head and rows.

    Raises:
        ValueError: no row.
    """
    rows = sorted(rows, key=lambda row: (row["year"], row["family"], row["key"]))
    if not rows:
        raise ValueError("pjrope.data.model_facts() is empty: the page would say nothing")
    verified = sum(bool(row["verified"]) for row in rows)
    sources = "\n".join(
        f"- **{key}** {entry['what']}: `{entry['where']}`"
        for key, entry in sorted(about["sources"].items())
        if key != "not verified"
    )
    return (
        f"{len(rows)} models, collected {about['collected']}; {verified} were read in a public file, "
        f"{len(rows) - verified} were not and are marked.\n\n"
        f"{table(HEAD, map(cells, rows))}\n\n### Sources\n\n{sources}"
    )
