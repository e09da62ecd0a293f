"""The training tab: how does a head form?"""

from viz.page.old_view import tab_of
from viz.views.training.training import view as training

TAB = tab_of("training", (training.VIEW,))
