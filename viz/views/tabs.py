"""The tabs of the page, in their order: the only list of them."""

from viz.tabs import (
    anatomy,
    attention,
    checks,
    compare,
    design,
    effects,
    heads,
    inside,
    predictions,
    quant,
    sampling,
    training,
)

TABS = (
    attention.TAB,
    sampling.TAB,
    predictions.TAB,
    inside.TAB,
    heads.TAB,
    effects.TAB,
    compare.TAB,
    anatomy.TAB,
    design.TAB,
    quant.TAB,
    training.TAB,
    checks.TAB,
)
