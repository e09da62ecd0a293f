"""Texts side by side that send every token on its own."""

import pytest

from viz.views.sampling.side_by_side import run, view


@pytest.fixture
def every_piece(monkeypatch):
    monkeypatch.setattr(view, "_EVERY", 0.0)
    monkeypatch.setattr(run.background, "WAIT", 0.0)
