"""The training tab: how does a head form, which mixer can learn a task, and do experts share the work?"""

from viz.seam.tab import Tab
from viz.views.training.experts import view as experts
from viz.views.training.training import view as training
from viz.views.training.which_mixer import view as which_mixer

TAB = Tab("training", (training.VIEW, which_mixer.VIEW, experts.VIEW))
