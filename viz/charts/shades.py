"""Color scales for numbers: logarithmic if they span several orders of magnitude, symmetric around zero if signed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from viz.numbers import number, power
from viz.theme import RAMPS, SIGNED_RAMPS, colorscale

SPAN = 30.0  # minimum ratio of maximum to minimum for which colors and axes are logarithmic
MIDDLE = (15.0, 85.0)  # percentiles spanned by robust colors
NARROW = 5.0  # maximum ratio within the middle range for which linear colors still distinguish its values
SKEW = 2.0  # minimum ratio of full range to middle range for which outliers would take up most of the colors
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25)  # between the labels of fractions, at most five of them above 0
DEPTH = 1e-6  # lower end of logarithmic colors, as a fraction of the maximum


def shade_of(values: np.ndarray, signed: bool) -> str:
    """Choose the color scale: "log" or "even" from minimum to maximum, "symlog" or "signed" around 0.

    The scale is logarithmic if the maximum is at least SPAN times the minimum or, for signed numbers, the median
    magnitude. It is "robust", spanning only the middle of the numbers, if outliers would take up most of an even
    scale.
    """
    size = np.abs(values[np.isfinite(values) & (values != 0)])
    if not size.size:
        return "signed" if signed else "even"
    if signed:
        return "symlog" if size.max() >= SPAN * np.median(size) else "signed"
    finite = values[np.isfinite(values)]
    low, high = np.percentile(finite, MIDDLE, method="nearest")
    if wide(values):
        return "robust" if 0 < low < high <= NARROW * low else "log"
    return "robust" if high > low and np.ptp(finite) >= SKEW * (high - low) else "even"


def wide(values: np.ndarray) -> bool:
    """Return whether the magnitudes span enough orders for a logarithmic axis."""
    size = np.abs(values[np.isfinite(values) & (values != 0)])
    return bool(size.size and size.max() >= SPAN * size.min())


def colored(values: np.ndarray, shade: str) -> tuple[np.ndarray, dict, dict[str, list[list]]]:
    """Map numbers to positions on a color axis; return the positions, the axis labeled with the numbers themselves,
    and its scales by theme.

    A logarithmic scale has no position for 0, so such a cell stays blank. "share" is for fractions of a whole: from 0
    to a round percentage.
    """
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    top = float(sizes.max()) if sizes.size else 1.0
    scales = {name: colorscale(stops, "linear") for name, stops in RAMPS.items()}
    if shade in ("signed", "symlog"):
        scales = {name: colorscale(stops, "linear") for name, stops in SIGNED_RAMPS.items()}
        knee = float(np.median(sizes)) if shade == "symlog" else 0.0
        ticks = _signed_ticks(top, knee)
        places = [float(_signed(np.float64(tick), knee)) for tick in ticks]
        end = float(_signed(np.float64(top), knee))
        return _signed(values, knee), _bar(places, ticks, -end, end), scales
    if shade == "share":
        step = next((each for each in STEPS if top <= 5 * each), STEPS[-1])
        ticks = [step * n for n in range(max(math.ceil(top / step - 1e-6), 1) + 1)]
        return values, _bar(ticks, ticks, 0.0, ticks[-1], lambda tick: f"{100 * tick:.0f}%"), scales
    if shade == "log":
        low = max(float(sizes.min()), DEPTH * top)
        ticks = decades(low, top)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(values > 0, np.log10(np.maximum(values, low)), np.nan)
        return z, _bar([math.log10(tick) for tick in ticks], ticks, math.log10(low), math.log10(top)), scales
    if shade == "robust":
        low, high = (float(end) for end in np.percentile(values[np.isfinite(values)], MIDDLE, method="nearest"))
        ticks = [low + (high - low) * share for share in (0, 0.25, 0.5, 0.75, 1)]
        return np.clip(values, low, high), _bar(ticks, ticks, low, high), scales
    low, high = (float(np.nanmin(values)), float(np.nanmax(values))) if np.isfinite(values).any() else (0.0, 1.0)
    high = high if high > low else low + (abs(low) or 1.0)
    ticks = [low + (high - low) * share for share in (0, 0.25, 0.5, 0.75, 1)]
    return values, _bar(ticks, ticks, low, high), scales


def _signed(values: np.ndarray | np.float64, knee: float) -> Any:
    """Return the numbers, or their symmetric logarithms if there is a knee: linear below the knee, logarithmic beyond
    it.
    """
    return np.arcsinh(values / knee) if knee else values


def _signed_ticks(top: float, knee: float) -> list[float]:
    """Choose tick values around 0, at most seven."""
    if not knee:
        return [-top, -top / 2, 0.0, top / 2, top]
    steps = range(math.ceil(math.log10(knee)), math.floor(math.log10(top)) + 1)
    powers = [10.0**step for step in steps][:: -(-len(steps) // 3) or 1] or [top]
    return [-power for power in reversed(powers)] + [0.0] + powers


def decades(low: float, high: float) -> list[float]:
    """List round numbers from low to high: powers of ten, with 2 and 5 times these if there are few."""
    steps = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for parts in ((1,), (1, 2, 5)):
        numbers = [part * 10.0**step for step in steps for part in parts if low <= part * 10.0**step <= high]
        if len(numbers) >= 3:
            return numbers[:: -(-len(numbers) // 8)]
    return [low, high]


def label(value: float) -> str:
    """Format a number beside a color bar, with powers of ten in short form."""
    return number(value) if value == 0 or 1e-3 <= abs(value) < 1e6 else power(value, 1)


def _bar(
    places: list[float], ticks: list[float], low: float, high: float, text: Callable[[float], str] = label
) -> dict:
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickvals": places, "ticktext": [text(t) for t in ticks]}
    return {"cmin": low, "cmax": high, "colorbar": bar}
