"""The training tab: the emergence of attention heads, a comparison of mixers, the balance of experts, gradients in deep
stacks, and the usual bugs.
"""

from viz.seam.tab import Tab
from viz.views.training.bug_zoo import view as bug_zoo
from viz.views.training.depth_gradients import view as depth_gradients
from viz.views.training.experts import view as experts
from viz.views.training.training import view as training
from viz.views.training.which_mixer import view as which_mixer

TAB = Tab("training", (training.VIEW, which_mixer.VIEW, experts.VIEW, depth_gradients.VIEW, bug_zoo.VIEW))
