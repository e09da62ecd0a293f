"""Downloads from the Hub: what is asked for, what is refused, and how it is said."""

import errno

import pytest

from model.downloads import hub_folder
from model.errors import CheckpointError, DownloadError, InputError


class Cancelled(Exception):
    """The visitor's."""


@pytest.mark.parametrize(
    "repo",
    [
        "gpt2",
        "",
        "a/b/c",
        "../b",
        "a/..",
        "a/../b",
        "/a/b",
        "a/b/",
        "a\\b",
        "a/b\n",
        "a/b c",
        "http://a/b",
        "a/.b",
        "a/b..c",
        "a/b--c",
        "a/b?x",
        "a/b#x",
        "a/b@main",
        "a/%2e%2e",
        "é/b",
        "a/" + "b" * 200,
    ],
)
def test_only_owner_slash_name_is_a_repository(repo):
    with pytest.raises(InputError, match="OWNER/NAME"):
        hub_folder(repo)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Stand in for snapshot_download: the folder with these files, or the error."""
    import huggingface_hub

    asked = {}

    def install(files=(), error=None):
        def snapshot_download(repo, **keywords):
            asked.update(keywords, repo=repo)
            bar = keywords["tqdm_class"](total=0, unit="B", name="huggingface_hub.snapshot_download", initial=0)
            bar.total = 10
            bar.update(4)
            transfer = keywords["tqdm_class"](total=0, unit="B", name="huggingface_hub.snapshot_download.transfer")
            transfer.update(9)
            keywords["tqdm_class"](total=3, desc="Fetching 3 files").update(1)
            bar.update(6)
            if error:
                raise error
            for file in files:
                (tmp_path / file).write_text("")
            return str(tmp_path)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        return asked

    return install


def test_the_hub_is_asked_for_safetensors_only(hub, tmp_path):
    asked, seen = hub(["config.json", "model.safetensors"]), []
    assert hub_folder("a/b.c-d_e", lambda *step: seen.append(step)) == tmp_path
    assert asked["repo"] == "a/b.c-d_e"
    allowed = asked["allow_patterns"]
    assert not [pattern for pattern in allowed if pattern.endswith((".bin", ".pt", ".pth", ".py", "*"))]
    assert seen == [(4, 10, "Fetching a/b.c-d_e"), (10, 10, "Fetching a/b.c-d_e")]


def test_offline_asks_nobody(hub, monkeypatch):
    from huggingface_hub import constants

    asked = hub(["config.json", "model.safetensors"])
    for environment, option in ((False, False), (False, True), (True, False)):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", environment)
        hub_folder("a/b", offline=option)
        assert asked["local_files_only"] is (environment or option)


def test_a_repository_without_safetensors(hub):
    hub(["config.json"])
    with pytest.raises(CheckpointError, match="never opened"):
        hub_folder("a/b")


def _refusals() -> dict:
    from unittest.mock import Mock

    from huggingface_hub import errors

    response = Mock(headers={}, status_code=404)
    return {
        "not found": (errors.RepositoryNotFoundError("404", response=response), "does not have this model"),
        "gated": (errors.GatedRepoError("403", response=response), "gated"),
        "offline": (errors.LocalEntryNotFoundError("no file"), "cannot be reached"),
        "other answer": (errors.HfHubHTTPError("500 oops", response=response), "500 oops"),
        "broken connection": (errors.HTTPError("reset by peer"), "reset by peer"),
        "disk full": (OSError(errno.ENOSPC, "No space left on device"), "disk is full"),
    }


@pytest.mark.parametrize("name", ["not found", "gated", "offline", "other answer", "broken connection", "disk full"])
def test_refusals_of_the_hub_are_put_in_words(name, hub):
    error, words = _refusals()[name]
    hub(error=error)
    with pytest.raises(DownloadError, match=words) as caught:
        hub_folder("a/b")
    assert caught.value.hint


def test_a_hub_download_can_be_cancelled(hub):
    hub(["config.json", "model.safetensors"])

    def cancel(done, total, what):
        raise Cancelled

    with pytest.raises(Cancelled):
        hub_folder("a/b", cancel)
