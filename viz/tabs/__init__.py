"""The tabs of the page, in their order: the only list of them."""

from viz.tabs import attention, training

TABS = (attention.TAB, training.TAB)
