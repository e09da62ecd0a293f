"""The Compare tab: the differences between two runs, and the vectors and heads that cause them."""

from viz.seam.tab import Tab
from viz.views.compare.patching import view as patching
from viz.views.compare.runs import view as runs

TAB = Tab("compare", (runs.VIEW, patching.VIEW))
