"""The sampling tab: how a distribution becomes a token, and what each strategy does to the same prompt."""

from viz.seam.tab import Tab
from viz.views.sampling.beam_tree import view as beam_tree
from viz.views.sampling.distribution import view as distribution
from viz.views.sampling.draws import view as draws
from viz.views.sampling.kv_cache import view as kv_cache
from viz.views.sampling.many_samples import view as many_samples
from viz.views.sampling.prompts import view as prompts
from viz.views.sampling.side_by_side import view as side_by_side
from viz.views.sampling.speculative import view as speculative
from viz.views.sampling.temperature import view as temperature

TAB = Tab(
    "sampling",
    (
        distribution.VIEW,
        temperature.VIEW,
        draws.VIEW,
        side_by_side.VIEW,
        beam_tree.VIEW,
        many_samples.VIEW,
        prompts.VIEW,
        speculative.VIEW,
        kv_cache.VIEW,
    ),
    left=("pipeline", "distribution_form", "distribution_steps"),
)
