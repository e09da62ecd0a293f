"""Numbers of scale: compute-optimal plans under published laws."""

from typing import Annotated

from model.anatomy.known_models import KNOWN, TINYGPT
from model.anatomy.scaling import LAWS, extra_compute, planned
from model.anatomy.scaling_curves import WITH_PRICE
from viz.api.arguments import OneOf, Within
from viz.page.playground import Playground


def scaling_laws(
    playground: Playground,
    given: Annotated[str, OneOf(("compute", "params", "tokens"))] = "compute",
    value: Annotated[float, Within(1e-3, 1e15)] = 5.76,
    exponent: Annotated[int, Within(0, 30)] = 23,
) -> dict:
    """The compute-optimal model under every published scaling law, and what known models were trained with.

    Args:
        given: What `value` is: compute (FLOPs), params or tokens.
        value: How much of it, times 10^exponent.
        exponent: The power of ten: value 5.76 and exponent 23 are 5.76e23 FLOPs.

    Returns:
        plans: law, params, tokens, compute, ratio (tokens a parameter), loss (nats a token of that study; null where
        the law gives none) and half (compute of a model of half the size for the same loss, over the least); models:
        name, params, tokens, year and source, as published.
    """
    amount = float(f"{value}e{exponent}")
    plans = [planned(law, given, amount) for law in LAWS]
    rows = [vars(plan) | {"ratio": plan.ratio, "half": _half(plan.law)} for plan in plans]
    return {"given": given, "value": amount, "plans": rows, "models": [vars(each) for each in (*KNOWN, TINYGPT)]}


def _half(law: str) -> float | None:
    """The compute of a model of half the optimal size; None for a law without a loss."""
    return float(extra_compute(law, 0.5)) if law in WITH_PRICE else None
