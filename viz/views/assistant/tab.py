"""The Assistant tab: the training of a language model to become an assistant."""

from viz.seam.tab import Tab
from viz.views.assistant.fine_tune import view as fine_tune
from viz.views.assistant.preferences import view as preferences
from viz.views.assistant.reinforcement import view as reinforcement
from viz.views.assistant.reward_model import view as reward_model

TAB = Tab("assistant", (fine_tune.VIEW, preferences.VIEW, reward_model.VIEW, reinforcement.VIEW))
