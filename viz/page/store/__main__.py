"""Store the results of slow measures: see `viz.page.store.results`."""

import sys

from viz.page.store.results import main

main(sys.argv[1:])
