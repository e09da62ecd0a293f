"""Models of another library that are run as they are: their attention, hidden states and logits are read."""
