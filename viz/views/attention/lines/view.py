"""The lines: tokens in two columns, a line from each to those that it attends to."""

from viz.seam.view import Custom, View
from viz.views.attention.links import drawn_links
from viz.views.attention.patterns import HEADS, LINKED, MEASURE

VIEW = View(
    "lines",
    tab_settings=(MEASURE, HEADS),
    measures=(LINKED,),
    layout=("links",),
    parts={"links": Custom("lines", drawn_links, depends=("head",))},
)
