"""The heads tab: every head in numbers, and which heads work together."""

from viz.page.old_view import tab_of
from viz.views.heads.heads import view as heads

TAB = tab_of("heads", (heads.VIEW,))
