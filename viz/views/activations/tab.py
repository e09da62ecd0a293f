"""The tab of norms and activations: what flows through the model, and what each norm and neuron does to it."""

from viz.tabs import neurons, onenorm, outliers, sizes, space, swap
from viz.tabs.views import tab_of

TAB = tab_of("inside", (sizes.VIEW, outliers.VIEW, onenorm.VIEW, swap.VIEW, neurons.VIEW, space.VIEW))
