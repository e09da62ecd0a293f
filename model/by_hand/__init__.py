"""A transformer's operations on a few numbers entered by the user: all steps, with the formula behind each number."""
