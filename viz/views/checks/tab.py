"""The Checks tab: does this server compute the right numbers?"""

from viz.seam.tab import Tab
from viz.views.checks.checks import view as checks
from viz.views.checks.claims import view as claims

TAB = Tab("checks", (checks.VIEW, claims.VIEW))
