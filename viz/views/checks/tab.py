"""The Checks tab: does this server compute the right numbers?"""

from viz.seam.tab import Tab
from viz.views.checks.checks import view as checks

TAB = Tab("checks", (checks.VIEW,))
