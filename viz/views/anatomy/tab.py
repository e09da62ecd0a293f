"""The tab of anatomy: what the model is made of, and what it costs in parameters, operations, memory and money."""

from viz.tabs import diagram, laws, memory, params, prices, vocabs, work
from viz.tabs.views import tab_of

TAB = tab_of("anatomy", (diagram.VIEW, params.VIEW, work.VIEW, memory.VIEW, laws.VIEW, vocabs.VIEW, prices.VIEW))
