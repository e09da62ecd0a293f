"""The tab of cheaper attention: fewer keys, fewer products, an approximation of softmax, or a recurrent state."""

from viz.seam.tab import Tab
from viz.views.cheaper.approximations import view as approximations
from viz.views.cheaper.budget import view as budget
from viz.views.cheaper.forget import view as forget
from viz.views.cheaper.savings import view as savings
from viz.views.cheaper.state import view as state

TAB = Tab("cheaper", (forget.VIEW, budget.VIEW, savings.VIEW, approximations.VIEW, state.VIEW))
