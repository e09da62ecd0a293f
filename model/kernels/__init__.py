"""Alternative implementations of matrix products, and the selection of the fastest on this machine."""
