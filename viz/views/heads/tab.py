"""The Heads tab: metrics of every head, the composition scores between heads, and what a head's weights say."""

from viz.seam.tab import Tab
from viz.views.heads.circuits import view as circuits
from viz.views.heads.heads import view as heads

TAB = Tab("heads", (heads.VIEW, circuits.VIEW))
