"""The tab of effects: what changing a head does to the prediction, and which heads it rests on."""

from viz.page.old_view import tab_of
from viz.views.effects.edits import view as edits
from viz.views.effects.sweep import view as sweep

TAB = tab_of("effects", (edits.VIEW, sweep.VIEW))
