"""The tab of cheaper attention: what a model can do without, and what that saves."""

from viz.seam.tab import Tab
from viz.views.cheaper.budget import view as budget
from viz.views.cheaper.forget import view as forget
from viz.views.cheaper.savings import view as savings

TAB = Tab("cheaper", (forget.VIEW, budget.VIEW, savings.VIEW))
