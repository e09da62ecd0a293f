"""The Effects tab: the effects of edits, of each head's ablation, of the token order and of each part of the model."""

from viz.seam.tab import Tab
from viz.views.effects.edits import view as edits
from viz.views.effects.floors import view as floors
from viz.views.effects.shuffled import view as shuffled
from viz.views.effects.sweep import view as sweep

TAB = Tab("effects", (edits.VIEW, sweep.VIEW, shuffled.VIEW, floors.VIEW))
