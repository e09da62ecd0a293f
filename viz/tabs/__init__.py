"""The tabs of the page, in their order: the only list of them."""

from viz.tabs import attention, compare, effects, heads, training

TABS = (attention.TAB, heads.TAB, effects.TAB, compare.TAB, training.TAB)
