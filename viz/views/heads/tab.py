"""The Heads tab: metrics of all heads, composition scores, and a head, neuron or direction over a corpus."""

from viz.seam.tab import Tab
from viz.views.heads.corpus import view as corpus
from viz.views.heads.heads import view as heads

TAB = Tab("heads", (heads.VIEW, corpus.VIEW))
