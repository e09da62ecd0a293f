"""Several page processes behind one address."""
