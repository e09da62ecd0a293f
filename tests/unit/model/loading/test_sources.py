"""Model ids: what each resolves to, and what is refused."""

import pytest

from model.downloads import CACHE_VARIABLE, SMOLLM2
from model.errors import CheckpointError, DownloadError, InputError
from model.loading import sources


def test_the_list_of_built_in_models():
    assert [model.id for model in sources.BUILT_IN] == ["tinygpt", "smollm2-135m", "tinymamba"]
    assert all(model.label and model.line.endswith(".") for model in sources.BUILT_IN)
    assert sources.BUILT_IN[1].download_bytes == SMOLLM2.wheel_bytes == 92_871_040


@pytest.mark.parametrize("model_id", ["", "gpt2", "TINYGPT", "smollm2-135m ", "/etc", "..", "x.gguf", "\0", "a" * 9999])
def test_an_unknown_id_lists_the_known_ones(model_id):
    with pytest.raises(InputError, match="tinygpt, smollm2-135m, tinymamba, hub:OWNER/NAME") as caught:
        sources.resolve(model_id)
    assert len(str(caught.value)) < 300


def test_paths_only_where_they_are_allowed(tmp_path):
    file = tmp_path / "m.GGUF"
    file.write_text("")
    for path, kind in ((tmp_path, "folder"), (file, "gguf")):
        with pytest.raises(InputError):
            sources.resolve(str(path))
        found = sources.resolve(str(path), allow_paths=True)
        assert (found.kind, found.path, found.model_id, found.label) == (kind, path, str(path), path.name)
    for nothing in (tmp_path / "none", tmp_path / "none.gguf", "\0", "~nobody-of-that-name/x", "a" * 9999):
        with pytest.raises(InputError, match="a folder"):
            sources.resolve(str(nothing), allow_paths=True)


def test_two_names_of_one_path_are_one_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = {sources.resolve(name, allow_paths=True).model_id for name in (".", str(tmp_path), f"{tmp_path}/.")}
    assert ids == {str(tmp_path)}


def test_the_parts_of_a_split_file_are_one_model(tmp_path):
    parts = [tmp_path / f"m-{n:05}-of-00003.gguf" for n in (1, 2, 3)]
    for path in parts:
        path.touch()
    assert {sources.resolve(str(path), allow_paths=True).path for path in parts} == {parts[0]}
    parts[0].unlink()
    assert sources.resolve(str(parts[1]), allow_paths=True).path == parts[1]


def test_built_in_models(monkeypatch, tmp_path):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "WEIGHTS", tmp_path)
    assert sources.available() == ()
    with pytest.raises(CheckpointError, match="tinygpt"):
        sources.resolve("tinygpt")
    (tmp_path / "tinygpt").mkdir()
    assert "tinygpt" not in sources.available()  # a folder without weights is no model
    (tmp_path / "tinygpt" / "model.safetensors").touch()
    assert sources.resolve("tinygpt").path == tmp_path / "tinygpt" and sources.available() == ("tinygpt",)
    with pytest.raises(DownloadError):
        sources.resolve("smollm2-135m", offline=True)


def test_a_hub_id_keeps_its_name(monkeypatch, tmp_path):
    asked = []

    def hub_folder(repo, progress, *, offline):
        asked.append((repo, progress, offline))
        return tmp_path

    monkeypatch.setattr(sources, "hub_folder", hub_folder)
    found = sources.resolve("hub:a/b", print, offline=True)
    assert (found.kind, found.path, found.model_id, found.label) == ("folder", tmp_path, "hub:a/b", "a/b")
    assert asked == [("a/b", print, True)]


@pytest.mark.parametrize("model_id", ["hub:../../etc", "hub:/etc", "hub:gpt2", "hub:"])
def test_a_hub_id_that_is_no_repository_is_refused(model_id):
    with pytest.raises(InputError, match="OWNER/NAME"):
        sources.resolve(model_id)
