"""The style sheet of a report; light or dark as the reader's system is."""

from __future__ import annotations

__all__ = ["CSS"]

# Each pair stays above 4.5 : 1 on its ground as text and tells arms apart beside the dashes.
_COLOURS = {
    "none": ("#5c5c5c", "#b0b0b0"),
    "alibi": ("#a84b00", "#f0a860"),
    "rope": ("#0b62ad", "#74b8f2"),
    "affine": ("#7a5f00", "#d9c552"),
    "near": ("#0b6e54", "#57cfaa"),
    "fj": ("#7437b0", "#c8a2f4"),
    "lc": ("#a81c62", "#f48fbb"),
    "union": ("#111111", "#f4f4f4"),
}
_LIGHT = "--paper:#fff;--ink:#1c1c1c;--soft:#555;--grid:#dedede;--zero:#8a8a8a;--card:#f3f5f8;"
_DARK = "--paper:#15181c;--ink:#ececec;--soft:#b5b9be;--grid:#363b42;--zero:#8d949c;--card:#20252b;"


def _palette(which: int) -> str:
    return "".join(f"--{name}:{pair[which]};" for name, pair in _COLOURS.items())


CSS = (
    f".pj-report{{{_LIGHT}{_palette(0)}color-scheme:light dark}}"
    f"@media (prefers-color-scheme:dark){{.pj-report{{{_DARK}{_palette(1)}}}}}"
    + "".join(f".pj-report .{name}{{--own:var(--{name})}}" for name in _COLOURS)
    + """
body.pj-report{margin:0}
.pj-report{background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
.pj-report main{max-width:72rem;margin:0 auto;padding:1rem}
.pj-report h1,.pj-report p.h1{font-weight:700;font-size:1.6rem;line-height:1.25;margin:.5rem 0;overflow-wrap:anywhere}
.pj-report h2,.pj-report p.h2{font-weight:700;font-size:1.2rem;margin:1.6rem 0 .4rem}
.pj-report p{max-width:46rem;margin:.4rem 0}
.pj-report .verdict{background:var(--card);border-left:4px solid var(--rope);padding:.6rem 1rem}
.pj-report .verdict p{font-size:1.1rem}
.pj-report .soft,.pj-report figcaption{color:var(--soft);font-size:.92rem}
.pj-report .charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1.2rem 2rem}
.pj-report figure{margin:0;max-width:36rem}
.pj-report svg{width:100%;height:auto;display:block}
.pj-report svg text{font:12px system-ui,sans-serif;fill:var(--ink)}
.pj-report .mid{text-anchor:middle}
.pj-report .end{text-anchor:end}
.pj-report .grid{stroke:var(--grid);fill:none}
.pj-report .zero{stroke:var(--zero);fill:none;stroke-width:1.5}
.pj-report .line{stroke:var(--own);fill:none;stroke-width:1.8}
.pj-report .thick{stroke-width:3}
.pj-report .dot{fill:var(--own)}
.pj-report .hollow{fill:none;stroke:var(--own);stroke-width:1.5}
.pj-report .legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1rem;padding:0;margin:.3rem 0;font-size:.9rem}
.pj-report .legend svg{width:28px;display:inline-block;vertical-align:middle}
.pj-report .wide{overflow-x:auto}
.pj-report table{border-collapse:collapse;font-size:.92rem}
.pj-report th,.pj-report td{border-bottom:1px solid var(--grid);padding:.25rem .7rem .25rem 0;text-align:left;white-space:nowrap}
.pj-report td.number{font-variant-numeric:tabular-nums}
.pj-report summary{cursor:pointer}
"""
)
