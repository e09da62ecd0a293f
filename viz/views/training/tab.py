"""The training tab: how does a head form?"""

from viz.seam.tab import Tab
from viz.views.training.training import view as training

TAB = Tab("training", (training.VIEW,))
