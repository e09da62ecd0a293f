"""The tab of design choices: what each part of the architecture does, tried out."""

from viz.tabs import distance, kernels, longer, mlps, posvec, rootd, rope, sharing, wiring
from viz.tabs.views import tab_of

TAB = tab_of(
    "design",
    (
        posvec.VIEW,
        rope.VIEW,
        distance.VIEW,
        longer.VIEW,
        wiring.VIEW,
        mlps.VIEW,
        sharing.VIEW,
        kernels.VIEW,
        rootd.VIEW,
    ),
)
