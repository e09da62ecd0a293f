"""The Heads tab: metrics of every head, composition scores, what a head's weights say, and a head, neuron or direction
over a corpus.
"""

from viz.seam.tab import Tab
from viz.views.heads.circuits import view as circuits
from viz.views.heads.corpus import view as corpus
from viz.views.heads.heads import view as heads

TAB = Tab("heads", (heads.VIEW, circuits.VIEW, corpus.VIEW))
