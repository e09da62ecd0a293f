"""In the text: the prompt as it reads, colored by what one token attends to, or by who attends to it."""

from viz.seam.view import Custom, View
from viz.views.attention.links import drawn_links
from viz.views.attention.patterns import HEADS, LINKED, MEASURE

VIEW = View(
    "text",
    tab_settings=(MEASURE, HEADS),
    measures=(LINKED,),
    layout=("reading",),
    parts={"reading": Custom("reading", drawn_links, depends=("head",))},
)
