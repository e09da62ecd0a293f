"""The Attention tab: an overview of all heads, and the selected heads as a map, as lines, in the text and by cell."""

from viz.seam.tab import Tab
from viz.views.attention.cell import view as cell
from viz.views.attention.find import view as find
from viz.views.attention.lines import view as lines
from viz.views.attention.map import view as map
from viz.views.attention.overview import view as overview
from viz.views.attention.text import view as text
from viz.views.attention.turns import view as turns

TAB = Tab("attention", (map.VIEW, lines.VIEW, text.VIEW, cell.VIEW, find.VIEW, turns.VIEW), beside=overview.VIEW)
