"""The By hand tab: every operation of a transformer on a few numbers entered by the user, with all steps."""

from viz.seam.tab import Tab
from viz.views.by_hand.hand_attention import view as hand_attention
from viz.views.by_hand.hand_block import view as hand_block
from viz.views.by_hand.hand_cache import view as hand_cache
from viz.views.by_hand.hand_logits import view as hand_logits
from viz.views.by_hand.hand_mistakes import view as hand_mistakes
from viz.views.by_hand.hand_mlp import view as hand_mlp
from viz.views.by_hand.hand_norms import view as hand_norms
from viz.views.by_hand.hand_positions import view as hand_positions
from viz.views.by_hand.hand_rounding import view as hand_rounding
from viz.views.by_hand.hand_slips import view as hand_slips
from viz.views.by_hand.hand_tutorial import view as hand_tutorial

TAB = Tab(
    "by_hand",
    (
        hand_attention.VIEW,
        hand_norms.VIEW,
        hand_mlp.VIEW,
        hand_block.VIEW,
        hand_logits.VIEW,
        hand_positions.VIEW,
        hand_rounding.VIEW,
        hand_cache.VIEW,
        hand_mistakes.VIEW,
        hand_tutorial.VIEW,
        hand_slips.VIEW,
    ),
)
