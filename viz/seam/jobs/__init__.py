"""Long work: measures that start by themselves, background jobs, and training runs."""
