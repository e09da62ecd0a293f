"""The tab of norms and activations: the residual stream, its outliers, norms, neurons, and what a probe reads."""

from viz.seam.tab import Tab
from viz.views.activations.neurons import view as neurons
from viz.views.activations.norm_swap import view as norm_swap
from viz.views.activations.one_norm import view as one_norm
from viz.views.activations.outliers import view as outliers
from viz.views.activations.probe import view as probe
from viz.views.activations.routing import view as routing
from viz.views.activations.sizes import view as sizes
from viz.views.activations.stream_picture import view as stream_picture

_NORMS = (sizes.VIEW, outliers.VIEW, one_norm.VIEW, norm_swap.VIEW)
TAB = Tab("activations", (*_NORMS, neurons.VIEW, probe.VIEW, routing.VIEW, stream_picture.VIEW))
