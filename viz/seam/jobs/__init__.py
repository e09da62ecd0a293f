"""Long-running work: measures that start automatically, background jobs, and training runs."""
