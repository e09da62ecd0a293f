"""The tabs of the page, in their order: the only list of them."""

from viz.tabs import attention, checks, compare, effects, heads, inside, predictions, sampling, training

TABS = (
    attention.TAB,
    sampling.TAB,
    predictions.TAB,
    inside.TAB,
    heads.TAB,
    effects.TAB,
    compare.TAB,
    training.TAB,
    checks.TAB,
)
