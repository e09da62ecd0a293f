"""Names of modules, as a clone and as the installed package have them."""

import pytest

from package.names import renamed


@pytest.mark.parametrize(
    ("here", "installed"),
    [
        ("from model.api import load_model", "from attention_playground.model.api import load_model"),
        ("from viz import numbers", "from attention_playground.viz import numbers"),
        ("    from viz.serve import launch", "    from attention_playground.viz.serve import launch"),
        ('lines = ["from model.api import x"]', 'lines = ["from attention_playground.model.api import x"]'),
        ("Run python -m viz.lessons check.", "Run python -m attention_playground.viz.lessons check."),
    ],
)
def test_a_module_gets_its_installed_name(here, installed):
    assert renamed(here) == installed


@pytest.mark.parametrize(
    "text", ["the way from model to assistant", "taken from model.", "model.config.n_layer", "from models.x import y"]
)
def test_other_words_stay(text):
    assert renamed(text) == text
