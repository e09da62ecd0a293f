"""The sampling tab: how a distribution becomes a token, and what each strategy does to the same prompt."""

from viz.tabs import cachelab, drafting, draws, heat, many, race, shape
from viz.tabs.views import tab_of

TAB = tab_of("sampling", (shape.VIEW, heat.VIEW, draws.VIEW, race.VIEW, many.VIEW, drafting.VIEW, cachelab.VIEW))
