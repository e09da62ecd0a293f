"""The assistant tab: how a model that continues texts comes to answer."""

from viz.seam.tab import Tab
from viz.views.assistant.fine_tune import view as fine_tune
from viz.views.assistant.reinforcement import view as reinforcement

TAB = Tab("assistant", (fine_tune.VIEW, reinforcement.VIEW))
