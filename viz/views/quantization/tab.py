"""The tab of quantization: fewer bits for a weight, and what becomes of the output."""

from viz.page.old_view import tab_of
from viz.views.quantization.formats import view as formats
from viz.views.quantization.layer_sweep import view as layer_sweep
from viz.views.quantization.rounding import view as rounding

TAB = tab_of("quantization", (formats.VIEW, layer_sweep.VIEW, rounding.VIEW))
