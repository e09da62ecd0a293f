"""Code and weights are believed only in folders that nobody else can write to."""

import os
import stat

import pytest

from model import private_folder
from model.private_folder import distrust, make_private


@pytest.fixture
def root(tmp_path):
    """root/inner/file, all of it ours alone."""
    make_private(tmp_path / "root" / "inner")
    (tmp_path / "root" / "inner" / "file").write_text("code")
    (tmp_path / "root" / "inner" / "file").chmod(0o644)
    return tmp_path / "root"


def test_folders_are_made_for_their_owner_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        make_private(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for name in ("a", "a/b", "a/b/c"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
    make_private(tmp_path / "a")


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        make_private(tmp_path / name)


def test_a_private_folder_is_trusted_and_so_is_what_is_not_there(root):
    assert distrust(root / "inner", root) is None
    assert distrust(root / "inner" / "file", root) is None
    assert distrust(root / "inner" / "none" / "at all", root) is None


@pytest.mark.parametrize("name", [".", "inner", "inner/file"])
@pytest.mark.parametrize("bit", [stat.S_IWGRP, stat.S_IWOTH])
def test_what_others_can_write_to_is_not(root, name, bit):
    path = root / name
    path.chmod(path.stat().st_mode | bit)
    assert distrust(root / "inner", root) == f"others can write to {path}"


@pytest.mark.parametrize("name", [".", "inner", "inner/file"])
def test_nor_is_what_belongs_to_another_user(root, monkeypatch, name):
    if os.getuid() == 0:
        os.chown(root / name, 4321, -1)
        reason = f"{root / name} belongs to another user"
    else:
        monkeypatch.setattr(private_folder.os, "getuid", lambda: 4321)
        reason = f"{root} belongs to another user"
    assert distrust(root / "inner", root) == reason


def test_nor_is_a_folder_that_everybody_can_rename(root, tmp_path):
    tmp_path.chmod(0o777)
    assert distrust(root / "inner", root) == f"everybody can write to {tmp_path}"
    tmp_path.chmod(0o1777)
    assert distrust(root / "inner", root) is None


def test_a_link_counts_as_what_it_leads_to(root, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o777)
    elsewhere.chmod(0o777)
    (root / "link").symlink_to(elsewhere)
    assert distrust(root / "link", root) == f"others can write to {elsewhere}"
