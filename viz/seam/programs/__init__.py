"""What a view declares for programs: endpoints, their arguments, and how their answers are cut and read."""
