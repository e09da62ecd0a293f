"""Models whose steps of generation are compiled."""

from model.gpt.decode_step import step_of
from model.gpt.linear import tune
from tests.support.models.helpers import VARIANTS, tiny_model


def prepared(name: str = "llama", how: str | None = "alone", more=None):
    """A model as it is loaded, and the way in which its steps are taken; None: by trial."""
    model = tiny_model({**VARIANTS[name], **(more or {})})
    model.join()
    tune(model)
    if how is not None:
        step_of(model).fastest.update(dict.fromkeys((1, 2, 4, 8, 16), how))
    return model
