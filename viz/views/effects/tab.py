"""The tab of effects: what changing a head does to the prediction, which heads it rests on, and what the order does."""

from viz.seam.tab import Tab
from viz.views.effects.edits import view as edits
from viz.views.effects.shuffled import view as shuffled
from viz.views.effects.sweep import view as sweep

TAB = Tab("effects", (edits.VIEW, sweep.VIEW, shuffled.VIEW))
