"""A cluster that is started here is reached from here alone."""

import json
import os
import subprocess
import sys

import pytest

from model import IMPORTED_FROM
from viz.cluster import join

LISTENING = """if True:
    import json, psutil
    from viz.cluster import join
    join.STORE = 80 << 20
    join.connect("ray", cpus=1, gpus=0)
    import ray
    ray.get(ray.remote(lambda: 1).options(num_cpus=1).remote())
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    open_ports = [port.laddr.ip for each in family for port in each.net_connections() if port.status == "LISTEN"]
    print(json.dumps([join.is_there(shared=False), join.is_there(shared=True), sorted(set(open_ports))]))
    ray.shutdown()
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "PYTHONPATH"):
        monkeypatch.setenv(name, "")  # restored afterwards, as what is set meanwhile
        monkeypatch.delenv(name)
    return tmp_path


def mode(path) -> int:
    return path.stat().st_mode & 0o777


def test_the_token_is_its_owner_s_alone(home):
    join._keep_private()
    token = home / ".ray" / "auth_token"
    first = token.read_text()
    assert len(first) == 64 and mode(token) == 0o600 and mode(token.parent) == 0o700
    token.chmod(0o644)
    join._keep_private()
    assert token.read_text() == first and mode(token) == 0o600


def test_a_token_of_ones_own_stays(home, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(home / "own"))
    join._keep_private()
    assert not (home / ".ray").exists()


def test_the_project_is_found_by_its_processes(home, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    join._keep_private()
    join._keep_private()
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [str(IMPORTED_FROM), "elsewhere"]


def test_where_none_was_started_none_is_there():
    assert not join.is_there(shared=False)


@pytest.mark.long
def test_a_local_cluster_listens_on_this_machine_alone(home):
    done = subprocess.run(
        [sys.executable, "-c", LISTENING],
        cwd=IMPORTED_FROM,
        env={**os.environ, "RAY_raylet_start_wait_time_s": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    local, shared, addresses = json.loads(done.stdout.splitlines()[-1])
    assert local and shared
    assert addresses and all(each.removeprefix("::ffff:") == "127.0.0.1" for each in addresses), addresses
