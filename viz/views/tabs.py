"""The tabs of the page by group, in display order; the only place that lists them."""

from viz.seam.tab import Tab
from viz.views import outside
from viz.views.activations import tab as activations
from viz.views.anatomy import tab as anatomy
from viz.views.assistant import tab as assistant
from viz.views.attention import tab as attention
from viz.views.by_hand import tab as by_hand
from viz.views.cheaper import tab as cheaper
from viz.views.checks import tab as checks
from viz.views.compare import tab as compare
from viz.views.design import tab as design
from viz.views.effects import tab as effects
from viz.views.heads import tab as heads
from viz.views.predictions import tab as predictions
from viz.views.quantization import tab as quantization
from viz.views.sampling import tab as sampling
from viz.views.start import tab as start
from viz.views.training import tab as training

# The tabs of a group serve one purpose and appear next to each other, in this order.
_GROUPS: tuple[tuple[str, tuple[Tab, ...]], ...] = (
    ("start", (start.TAB,)),
    ("look", (attention.TAB, predictions.TAB, activations.TAB)),
    ("write", (sampling.TAB,)),
    ("prove", (heads.TAB, effects.TAB, compare.TAB, checks.TAB)),
    ("build", (anatomy.TAB, design.TAB, cheaper.TAB, quantization.TAB)),
    ("learn", (by_hand.TAB, training.TAB, assistant.TAB)),
)
_OUTSIDE = outside.tabs(tuple(tab for _, tabs in _GROUPS for tab in tabs))
GROUPS = (*_GROUPS, *((("own", _OUTSIDE),) if _OUTSIDE else ()))
TABS = tuple(tab for _, tabs in GROUPS for tab in tabs)
