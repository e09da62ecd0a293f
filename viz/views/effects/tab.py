"""The Effects tab: what edits do to the prediction, which heads it depends on, and the effect of the tokens' order."""

from viz.seam.tab import Tab
from viz.views.effects.edits import view as edits
from viz.views.effects.shuffled import view as shuffled
from viz.views.effects.sweep import view as sweep

TAB = Tab("effects", (edits.VIEW, sweep.VIEW, shuffled.VIEW))
