"""The command line of training: `python -m model.training`."""

import sys

from model.training_cli import main

sys.exit(main())
