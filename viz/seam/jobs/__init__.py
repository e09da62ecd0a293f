"""What takes longer than a moment: started or not, in a line, in the background, as a run with a life of its own."""
