"""The assistant tab: how a model that continues texts comes to answer."""

from viz.seam.tab import Tab
from viz.views.assistant.fine_tune import view as fine_tune

TAB = Tab("assistant", (fine_tune.VIEW,))
