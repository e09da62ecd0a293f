"""The predictions tab: what comes next, when it appears, and who wrote it."""

from viz.tabs import follow, guess, lens, surprise, wrote
from viz.tabs.views import tab_of

TAB = tab_of("predictions", (surprise.VIEW, guess.VIEW, follow.VIEW, lens.VIEW, wrote.VIEW))
