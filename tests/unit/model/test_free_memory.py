"""A model that does not fit is refused before its weights are read, and not where they stay in their files."""

from types import SimpleNamespace

import pytest

from model import free_memory
from model.api import load_model
from model.errors import CheckpointError
from model.loading.checkpoint import load_folder, save_folder
from tests.support.models.helpers import tiny_model


def with_memory(monkeypatch, available: int) -> None:
    monkeypatch.setattr(free_memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=available))


@pytest.mark.parametrize(("available", "fits"), [(1100, True), (1099, False)])
def test_it_fits_to_the_byte(available, fits, monkeypatch):
    with_memory(monkeypatch, available)
    assert free_memory.fits(1000) is fits


@pytest.mark.parametrize("spare", [0, -1])
def test_what_does_not_fit_is_not_read(spare, tmp_path, monkeypatch):
    model = tiny_model()
    save_folder(tmp_path, model)
    with_memory(monkeypatch, sum(parameter.nbytes for parameter in model.parameters()) * 110 // 100 + spare)
    if spare < 0:
        monkeypatch.setattr("model.loading.safetensors_files.TensorFolder.read", None)
        with pytest.raises(CheckpointError, match="do not fit into the free memory") as error:
            load_folder(tmp_path)
        assert "--weights stored" in error.value.hint and "GB" in error.value.got
    else:
        assert load_folder(tmp_path)[0] == model.config
    assert load_folder(tmp_path, stored=True)[0] == model.config


def test_the_page_s_models_are_refused_and_stored_ones_are_not(monkeypatch):
    with_memory(monkeypatch, 4000)
    with pytest.raises(CheckpointError):
        load_model("tinygpt")
    assert load_model("tinygpt", stored=True).trace("Hello").pattern(0, 0).sum(1) == pytest.approx(1, abs=1e-6)
