"""The heads tab: every head in numbers, and which heads work together."""

from viz.seam.tab import Tab
from viz.views.heads.heads import view as heads

TAB = Tab("heads", (heads.VIEW,))
