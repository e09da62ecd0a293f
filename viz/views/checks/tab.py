"""The tab of checks: is what this server computes right?"""

from viz.page.old_view import tab_of
from viz.views.checks.checks import view as checks

TAB = tab_of("checks", (checks.VIEW,))
