"""The Effects tab: the effects of edits, of each head's ablation and of the token order on the prediction."""

from viz.seam.tab import Tab
from viz.views.effects.edits import view as edits
from viz.views.effects.shuffled import view as shuffled
from viz.views.effects.sweep import view as sweep

TAB = Tab("effects", (edits.VIEW, sweep.VIEW, shuffled.VIEW))
