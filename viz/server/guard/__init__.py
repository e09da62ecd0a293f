"""Access control: login, rate limits, and the health report of the process."""
