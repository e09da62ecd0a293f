"""The tab of quantization: fewer bits for a weight, and what becomes of the output."""

from viz.tabs import formats, rounding, sensitive
from viz.tabs.views import tab_of

TAB = tab_of("quant", (formats.VIEW, sensitive.VIEW, rounding.VIEW))
