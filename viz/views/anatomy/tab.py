"""The Anatomy tab: the parts of a model, and its cost in parameters, FLOPs, memory and money."""

from viz.seam.tab import Tab
from viz.views.anatomy.compute import view as compute
from viz.views.anatomy.diagram import view as diagram
from viz.views.anatomy.memory import view as memory
from viz.views.anatomy.parameters import view as parameters
from viz.views.anatomy.prices import view as prices
from viz.views.anatomy.scaling_laws import view as scaling_laws
from viz.views.anatomy.tokenizers import view as tokenizers
from viz.views.anatomy.vocabulary import view as vocabulary

TAB = Tab(
    "anatomy",
    (
        diagram.VIEW,
        parameters.VIEW,
        compute.VIEW,
        memory.VIEW,
        scaling_laws.VIEW,
        tokenizers.VIEW,
        vocabulary.VIEW,
        prices.VIEW,
    ),
)
