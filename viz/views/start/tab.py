"""The start: one look at what the model expects, and how it gets there."""

from viz.seam.tab import Tab
from viz.views.start.start import view as start

TAB = Tab("start", (start.VIEW,))
