"""The tab of comparisons: what differs between two runs, and which vectors carry it."""

from viz.page.old_view import tab_of
from viz.views.compare.patching import view as patching
from viz.views.compare.runs import view as runs

TAB = tab_of("compare", (runs.VIEW, patching.VIEW))
