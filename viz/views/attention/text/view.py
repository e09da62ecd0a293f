"""The text: the prompt, colored by the attention from or to one of its tokens."""

from viz.seam.view import Custom, View
from viz.views.attention.links import drawn_links
from viz.views.attention.patterns import HEADS, LINKED, MEASURE
from viz.views.attention.units import UNIT

VIEW = View(
    "text",
    needs=(),
    tab_settings=(MEASURE, HEADS, UNIT),
    measures=(LINKED,),
    layout=("reading",),
    parts={"reading": Custom("reading", drawn_links, depends=("head",))},
)
