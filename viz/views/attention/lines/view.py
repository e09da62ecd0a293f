"""The lines: tokens in two columns, with a line from each query token to its key tokens."""

from viz.seam.view import Custom, View
from viz.views.attention.links import drawn_links
from viz.views.attention.patterns import HEADS, LINKED, MEASURE
from viz.views.attention.units import UNIT

VIEW = View(
    "lines",
    needs=(),
    tab_settings=(MEASURE, HEADS, UNIT),
    measures=(LINKED,),
    layout=("links",),
    parts={"links": Custom("lines", drawn_links, depends=("head",))},
)
