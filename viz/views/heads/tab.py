"""The Heads tab: metrics of every head, and the composition scores between heads."""

from viz.seam.tab import Tab
from viz.views.heads.heads import view as heads

TAB = Tab("heads", (heads.VIEW,))
