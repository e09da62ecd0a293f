"""The tab of checks: is what this server computes right?"""

from viz.seam.tab import Tab
from viz.views.checks.checks import view as checks

TAB = Tab("checks", (checks.VIEW,))
