"""The tab of comparisons: what differs between two runs, and which vectors carry it."""

from viz.seam.tab import Tab
from viz.views.compare.patching import view as patching
from viz.views.compare.runs import view as runs

TAB = Tab("compare", (runs.VIEW, patching.VIEW))
