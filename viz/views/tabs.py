"""The tabs of the page, in their order: the only list of them."""

from viz.views import outside
from viz.views.activations import tab as activations
from viz.views.anatomy import tab as anatomy
from viz.views.attention import tab as attention
from viz.views.checks import tab as checks
from viz.views.compare import tab as compare
from viz.views.design import tab as design
from viz.views.effects import tab as effects
from viz.views.heads import tab as heads
from viz.views.predictions import tab as predictions
from viz.views.quantization import tab as quantization
from viz.views.sampling import tab as sampling
from viz.views.training import tab as training

_OURS = (
    attention.TAB,
    sampling.TAB,
    predictions.TAB,
    activations.TAB,
    heads.TAB,
    effects.TAB,
    compare.TAB,
    anatomy.TAB,
    design.TAB,
    quantization.TAB,
    training.TAB,
    checks.TAB,
)
TABS = (*_OURS, *outside.tabs(_OURS))
