"""The Start tab: the model's prediction at a glance, and how the model arrives at it."""

from viz.seam.tab import Tab
from viz.views.start.start import view as start

TAB = Tab("start", (start.VIEW,))
