"""What steps were taken."""

import pytest

from model.gpt import decode_step


@pytest.fixture
def taken(monkeypatch):
    """How many rows went through compiled blocks, and in which way."""
    rows, real = [], decode_step.DecodeStep.blocks

    def blocks(self, x, places, how):
        rows.append((len(x), how))
        return real(self, x, places, how)

    monkeypatch.setattr(decode_step.DecodeStep, "blocks", blocks)
    return rows
