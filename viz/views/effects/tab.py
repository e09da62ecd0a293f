"""The Effects tab: edits, each head's ablation, effects over a prompt set, the token order, each part of the model."""

from viz.seam.tab import Tab
from viz.views.effects.edits import view as edits
from viz.views.effects.floors import view as floors
from viz.views.effects.prompt_set import view as prompt_set
from viz.views.effects.shuffled import view as shuffled
from viz.views.effects.steering import view as steering
from viz.views.effects.sweep import view as sweep

TAB = Tab("effects", (edits.VIEW, sweep.VIEW, steering.VIEW, prompt_set.VIEW, shuffled.VIEW, floors.VIEW))
