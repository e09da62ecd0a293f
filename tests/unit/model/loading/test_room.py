"""A model that does not fit is refused before its weights are read, and not where they stay in their files."""

from types import SimpleNamespace

import pytest

from model.api import load_model
from model.errors import CheckpointError
from model.gpt.config import preset
from model.loading import room
from model.loading.checkpoint import load_folder, save_folder
from model.loading.room import room_for
from tests.support.helpers import tiny_model


def with_memory(monkeypatch, available: int) -> None:
    monkeypatch.setattr(room.psutil, "virtual_memory", lambda: SimpleNamespace(available=available))


def test_the_weights_are_those_of_the_model():
    model = tiny_model()
    assert room_for(model.config).weights == sum(parameter.nbytes for parameter in model.parameters())
    assert room_for(preset("gpt2")).weights == 4 * 124_439_808
    assert room_for(preset("gpt2")).available > 0


@pytest.mark.parametrize(("spare", "fits"), [(0, True), (-1, False)])
def test_it_fits_to_the_byte(spare, fits, monkeypatch):
    config = preset("gpt2")
    with_memory(monkeypatch, room_for(config).weights * 110 // 100 + spare)
    assert room_for(config).fits is fits


def test_what_does_not_fit_is_not_read(tmp_path, monkeypatch):
    save_folder(tmp_path, tiny_model())
    with_memory(monkeypatch, 4000)
    monkeypatch.setattr("model.loading.safetensors_files.TensorFolder.read", None)
    with pytest.raises(CheckpointError, match="do not fit into the memory") as error:
        load_folder(tmp_path)
    assert "--weights stored" in error.value.hint and "GB" in error.value.got
    config, state = load_folder(tmp_path, stored=True)
    assert len(state) and config == tiny_model().config


def test_the_page_s_models_are_refused_and_stored_ones_are_not(monkeypatch):
    with_memory(monkeypatch, 4000)
    with pytest.raises(CheckpointError):
        load_model("tinygpt")
    assert load_model("tinygpt", stored=True).trace("Hello").pattern(0, 0).sum(1) == pytest.approx(1, abs=1e-6)
