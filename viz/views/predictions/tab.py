"""The Predictions tab: the next token, the layers at which it appears, what a placed vector changes, and the parts that
contribute to its logit.
"""

from viz.seam.tab import Tab
from viz.views.predictions.follow import view as follow
from viz.views.predictions.guess import view as guess
from viz.views.predictions.lens import view as lens
from viz.views.predictions.logit_parts import view as logit_parts
from viz.views.predictions.place import view as place
from viz.views.predictions.surprise import view as surprise

TAB = Tab("predictions", (surprise.VIEW, guess.VIEW, follow.VIEW, lens.VIEW, place.VIEW, logit_parts.VIEW))
