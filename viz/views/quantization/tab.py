"""The Quantization tab: weights in fewer bits, and the effect on the output."""

from viz.seam.tab import Tab
from viz.views.quantization.formats import view as formats
from viz.views.quantization.layer_sweep import view as layer_sweep
from viz.views.quantization.rounding import view as rounding

TAB = Tab("quantization", (formats.VIEW, layer_sweep.VIEW, rounding.VIEW))
