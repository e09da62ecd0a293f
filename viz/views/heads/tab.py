"""The Heads tab: every head in numbers, and the wiring between heads."""

from viz.seam.tab import Tab
from viz.views.heads.heads import view as heads

TAB = Tab("heads", (heads.VIEW,))
