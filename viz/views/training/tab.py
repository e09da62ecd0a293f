"""The training tab: how does a head form?"""

from viz.page.tab import Tab
from viz.views.training.training import view as training

TAB = Tab("training", (training.VIEW,))
