"""The tab of cheaper attention: fewer keys, fewer products, or a sum in place of the softmax."""

from viz.seam.tab import Tab
from viz.views.cheaper.approximations import view as approximations

TAB = Tab("cheaper", (approximations.VIEW,))
