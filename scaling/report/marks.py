"""Marks: the visual language of the report, the same in every chart and legend.

Colour and shape say *which series*, fill and line say *how the number was obtained*
(its provenance), so that neither is lost in greyscale or to a colour-blind reader.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scaling.measurement import Provenance


@dataclass(frozen=True, kw_only=True)
class Look:
    """How the marks of one provenance are drawn, and what it means."""

    filled: bool
    dash: tuple[int, ...]
    """Lengths of strokes and gaps; empty is a solid line."""
    meaning: str


LOOKS: Mapping[Provenance, Look] = {
    "measured": Look(
        filled=True,
        dash=(),
        meaning="timed on real devices, each with cores or a chip of its own",
    ),
    "simulated": Look(
        filled=False,
        dash=(6, 4),
        meaning="more CPU devices than cores: shown, never judged",
    ),
    "compiled": Look(
        filled=False,
        dash=(9, 3, 2, 3),
        meaning="predicted from the program of the real compiler, not measured",
    ),
    "analytic": Look(
        filled=False,
        dash=(2, 3),
        meaning="calculated from shapes and vendor figures; nothing ran",
    ),
    "published": Look(
        filled=True,
        dash=(2, 2, 6, 2),
        meaning="a figure that others have published",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Swatch:
    """Colour and shape of one series; the colours differ for every kind of sight."""

    light: str
    """On white, contrast at least 3.8 to 1."""
    dark: str
    """On the dark page, contrast at least 7 to 1."""
    path: str
    """SVG path between -1 and 1 in both dims, which Vega takes as well."""


SWATCHES = (
    Swatch(light="#0072b2", dark="#56b4e9", path="M-1,0A1,1,0,1,0,1,0A1,1,0,1,0,-1,0Z"),
    Swatch(light="#d55e00", dark="#ff9248", path="M-.9,-.9H.9V.9H-.9Z"),
    Swatch(light="#00825f", dark="#3fd0a0", path="M0,-1L1,.8H-1Z"),
    Swatch(light="#aa4499", dark="#e39bd0", path="M0,-1.2L1.2,0L0,1.2L-1.2,0Z"),
    Swatch(light="#9a6b00", dark="#e9c349", path="M0,1L1,-.8H-1Z"),
    Swatch(light="#5b6470", dark="#b4bcc8", path="M1,0L-.8,1V-1Z"),
)
"""One for each series of a panel, after Okabe and Ito (2008), darkened for white."""

INK = "#1c2127"
MUTED = "#57606a"
GRID = "#e4e8ec"
PAPER = "#ffffff"
FAILURE = "#b3261e"

NEUTRAL = Swatch(light=MUTED, dark=MUTED, path=SWATCHES[0].path)
"""Where a look is explained and no series is meant."""

CROSS = "M-1,-1L1,1M-1,1L1,-1"
"""Where a point has no number: it failed."""

THEME: Mapping[str, str] = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
    FAILURE: "var(--failure)",
    **{swatch.light: f"var(--series-{n})" for n, swatch in enumerate(SWATCHES)},
}
"""CSS variable of the page for each colour of a chart."""
