"""The Design tab: experiments with the parts of the architecture."""

from viz.seam.tab import Tab
from viz.views.design.attention_ways import view as attention_ways
from viz.views.design.distance import view as distance
from viz.views.design.kv_heads import view as kv_heads
from viz.views.design.mlps import view as mlps
from viz.views.design.norms_residuals import view as norms_residuals
from viz.views.design.past_length import view as past_length
from viz.views.design.position_vectors import view as position_vectors
from viz.views.design.rope import view as rope
from viz.views.design.score_scaling import view as score_scaling

TAB = Tab(
    "design",
    (
        position_vectors.VIEW,
        rope.VIEW,
        distance.VIEW,
        past_length.VIEW,
        norms_residuals.VIEW,
        mlps.VIEW,
        kv_heads.VIEW,
        attention_ways.VIEW,
        score_scaling.VIEW,
    ),
)
