"""Curves of the scaling laws: loss against compute, tokens against parameters, and relative compute
against model size.
"""

from dataclasses import dataclass

import numpy as np

from model.anatomy.power_fit import LEAST_POINTS, Fit, floor_fit, line_fit, smoothed
from model.anatomy.scaling import LAWS, PARAMETRIC, extra_compute, loss_of, optimum, tokens_for
from model.errors import InputError
from model.public import above, between, one_of, public

PLANE = ((1e6, 1e13), (1e7, 1e15))  # ranges of the plot: parameters, tokens
SHARES = (0.1, 6.0)  # range of N / N*, the ratio to the optimal number of parameters
MOST_EXTRA = 10.0  # maximum relative compute of the plot
WITH_PRICE = ("kaplan", *PARAMETRIC)  # laws for which `extra_compute` is defined


@dataclass(frozen=True)
class ScalingCurve:
    """One curve: its label (a law, a number of parameters, or a loss) and its points."""

    of: str | float
    x: list[float]
    y: list[float]


def _curve(of: str | float, x: np.ndarray, y: np.ndarray, low: float = 0.0, high: float = np.inf) -> ScalingCurve:
    """Build a curve from the points whose y is finite and within the bounds."""
    keep = np.isfinite(y) & (y >= low) & (y <= high)
    return ScalingCurve(of, x[keep].tolist(), y[keep].tolist())


@public(law=one_of((*PARAMETRIC, "kaplan")), compute=between(1e8, 1e36), most=above(0, 1e300))
def size_curves(law: str, compute: float, most: float) -> list[ScalingCurve]:
    """Return curves of loss against compute, one per model size, around the optimum of a budget; losses above `most`
    are omitted.
    """
    middle = round(np.log10(optimum(law, compute).params))
    budgets = compute * np.geomspace(1e-4, 1e3, 141)
    sizes = 10.0 ** np.arange(middle - 2, middle + 3)
    return [_curve(n, budgets, loss_of(law, n, budgets / 6 / n), high=most) for n in sizes.tolist()]


@public(compute=between(1e8, 1e36))
def frontiers(compute: float) -> list[ScalingCurve]:
    """Return curves of the lowest loss against compute, one per law that predicts a loss."""
    budgets = compute * np.geomspace(1e-4, 1e3, 57)
    return [
        ScalingCurve(law, budgets.tolist(), [optimum(law, each).loss for each in budgets.tolist()])
        for law in LAWS
        if optimum(law, compute).loss is not None
    ]


@public(law=one_of(PARAMETRIC))
def contours(law: str) -> list[ScalingCurve]:
    """Return iso-loss curves of tokens against parameters, for several losses of a parametric law."""
    (few, many), (low, high) = PLANE
    sizes = np.geomspace(few, many, 281)
    losses = [float(round(PARAMETRIC[law].E + gap, 2)) for gap in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)]
    return [_curve(loss, sizes, tokens_for(law, sizes, loss), low, high) for loss in losses]


def optimal_lines() -> list[ScalingCurve]:
    """Return curves of compute-optimal tokens against parameters, one per law."""
    (few, many), (low, high) = PLANE
    lines = []
    for law in LAWS:
        plans = [optimum(law, float(each)) for each in np.geomspace(1e13, 1e30, 86)]
        visible = [plan for plan in plans if few <= plan.params <= many and low <= plan.tokens <= high]
        lines.append(ScalingCurve(law, [plan.params for plan in visible], [plan.tokens for plan in visible]))
    return lines


def price_curves() -> list[ScalingCurve]:
    """Return curves of the relative compute for the same loss against N / N*, the ratio to the optimal number of
    parameters.
    """
    shares = np.geomspace(*SHARES, 241)
    return [_curve(law, shares, extra_compute(law, shares), high=MOST_EXTRA) for law in WITH_PRICE]


# --- measured runs ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunCurve:
    """Training loss of one run: means in bins of tokens, and power laws fitted to them.

    `line` is the fit without a floor, `floor` the fit with one; None if there are too few points. Both fit a single
    curve, whose points are correlated and depend on the learning rate schedule, so the intervals are too narrow.
    """

    tokens: list[float]
    losses: list[float]
    line: Fit | None
    floor: Fit | None


def run_curve(tokens: list[int], losses: list[float]) -> RunCurve:
    """Build the smoothed training curve of a run and fit power laws to it. `tokens` are the tokens processed so far,
    `losses` are in nats per token.
    """
    x, y = smoothed(np.array(tokens, float), np.array(losses, float))
    return RunCurve(x.tolist(), y.tolist(), fitted(x, y, "line"), fitted(x, y, "floor"))


def fitted(x: np.ndarray | list[float], y: np.ndarray | list[float], kind: str) -> Fit | None:
    """Fit a power law of `kind` `line` or `floor` to points; None if there are too few points."""
    try:
        return (line_fit if kind == "line" else floor_fit)(np.asarray(x), np.asarray(y))
    except InputError:
        return None


def lacking(points: int, kind: str = "line") -> int:
    """Return the number of additional points that a fit needs."""
    return max(0, LEAST_POINTS[kind] - points)
