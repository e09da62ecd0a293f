"""Who computes what the page shows: this process, or replicas of models on a Ray cluster."""
