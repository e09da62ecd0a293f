"""`python -m model.training`: the command line of training."""

import sys

from model.training_cli import main

sys.exit(main())
