"""Who may come in, how often a client may ask, and how the process is."""
