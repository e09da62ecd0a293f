"""`python -m model.training`: the command line of training."""

import sys

from model.training.cli import main

sys.exit(main())
