"""Folders of this project's own format hold every part of a model, also those of Gemma 4."""

import pytest
import torch

from model.loading.checkpoint import build, load_folder, save_folder
from tests.support.models.helpers import OWN_LAYERS, random_ids, tiny_model


@pytest.mark.parametrize("name", OWN_LAYERS)
def test_a_saved_model_of_own_layers_is_the_same_when_it_is_loaded(tmp_path, name):
    model, ids = tiny_model(OWN_LAYERS[name]), random_ids(1, 9)
    save_folder(tmp_path, model)
    loaded = build(*load_folder(tmp_path))
    with torch.inference_mode():
        assert torch.equal(loaded(ids), model(ids))
