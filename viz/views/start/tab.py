"""The Start tab: the model's prediction at a glance, and how it arises inside the model."""

from viz.seam.tab import Tab
from viz.views.start.start import view as start

TAB = Tab("start", (start.VIEW,))
