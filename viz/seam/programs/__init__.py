"""Endpoints for programs: their declaration, their arguments, and helpers for their answers."""
