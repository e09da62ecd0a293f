"""Every test runs offline, seeded and on two threads at most.

The README's command leaves the long part out: journeys through single views, the files of LONG, and what is marked
`long`. With REQUIRE_ALL=1 everything runs, and a skipped test is a failure.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read once, when huggingface_hub is imported
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is imported: spinning threads starve others
if "PYTEST_XDIST_WORKER" in os.environ:  # processes, servers and browsers share the cores: a thread for each is enough
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import contextlib
import gc
import logging
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from model.kernels import ready
from viz.work.processes import start

start.IMPORTED.append("tests.support.imported")  # for the apps that the tests start
SOON, ready.soon = ready.soon, ready.now  # so that what is computed in a test does not depend on who was there first
# Nor is anything imported beside the next test: pytest goes over all loggers meanwhile, and an import makes new ones.
NEVER, ready.never = ready.never, lambda: ready.now() is None
torch.set_num_threads(min(2, torch.get_num_threads()))
# How long an example takes, or is thought out, says nothing of what is tested: the machine may be busy.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")
# pytest hangs a handler of its own on each that does not hand on, at every test.
for logger in logging.root.manager.loggerDict.values():
    if isinstance(logger, logging.Logger):
        logger.propagate = True


@pytest.fixture
def own_soon(monkeypatch):
    """`model.kernels.ready.soon` as it is outside the tests, where `never` is then, too."""
    monkeypatch.setattr(ready, "never", NEVER)
    return SOON


ALL = os.environ.get("REQUIRE_ALL") == "1"  # everything runs, and a skipped test is a failure


# Places, as below, that drive a browser for more than a minute; beside them the walks.
FIRST = ("tiny app", "page/test_lessons.py", "smoke/test_hostile.py", "browser smoke")


def _place(nodeid: str) -> str:
    """What stays in one process: a file's tests, and those that share what is dear to start."""
    file = nodeid.split("::")[0]
    if file.endswith("/unit/views/test_views.py"):  # every view in every wiring: by far the longest of its kind
        return nodeid.split("[")[0]
    if "/js/" in file:  # one Chromium
        return "js"
    if "/parity/" in file:  # only one process has to import transformers
        return "parity"
    if "/browser/" not in file:
        return file
    if file.endswith("/smoke/test_walks.py"):  # the longest of all
        return nodeid if ALL else "walks"
    if not ALL:  # two processes have an app and a browser
        return "browser smoke"
    return "tiny app" if "/training/" in file or "/assistant/" in file else file


def _turn(nodeid: str) -> int:
    """When it is begun: what drives a browser for long first, short files last, so that all processes end together.

    Each process that drives a browser keeps one, and an app. The scripts' modules have a browser of their own.
    A process that has two tests left is handed its next place already: after the walks a short one.
    """
    place = _place(nodeid)
    if place == "js":
        return 0
    if "/browser/" in nodeid:
        return 1 if "walks" in place or place.endswith(FIRST) else 2
    if "/property/" in nodeid:
        return 3
    return 5 if any(folder in place for folder in ("/unit/views/", "/unit/server/", "/unit/app/")) else 4


# Files that train, start processes or try everything one by one: two fifths of the time of what has no browser (188 of
# 433 CPU seconds), and one of two walks over every view (some 150). What they are about is still tested: every view is
# drawn by unit/views/test_views.py, and its numbers are those of a file below unit/model.
LONG = {
    "browser/smoke/test_hostile.py",
    "parity/test_experts_parity.py",
    "parity/weights/test_lora_parity.py",
    "parity/test_mutants.py",
    "property/test_fuzz_values.py",
    "property/test_warps_property.py",
    "unit/api/test_endpoint_numbers.py",
    "unit/api/test_endpoints_live.py",
    "unit/model/alignment/reinforcement/test_run.py",
    "unit/model/alignment/test_tuning.py",
    "unit/model/checks/test_random_tokens.py",
    "unit/model/design/test_block_trials.py",
    "unit/model/design/test_mlp_trials.py",
    "unit/model/text/test_chat_turns.py",
    "unit/model/design/test_mixer_trial.py",
    "unit/model/training/test_phases.py",
    "unit/page/test_answer.py",
    "unit/page/test_chat.py",
    "unit/project/test_mini_gpt.py",
    "unit/work/processes/test_trained_files.py",
    "unit/work/processes/test_training_process.py",
    "unit/work/processes/test_trial_process.py",
    "unit/app/test_space.py",
    "unit/cluster/workers/test_haproxy.py",
    "unit/cluster/workers/test_pool.py",
    "unit/views/activations/test_norm_swap.py",
    "unit/views/activations/test_one_norm.py",
    "unit/views/anatomy/test_compute.py",
    "unit/views/anatomy/test_scaling_laws.py",
    "unit/views/assistant/test_reinforcement.py",
    "unit/views/assistant/test_reward_model.py",
    "unit/views/attention/test_turns.py",
    "unit/views/checks/test_checks.py",
    "unit/views/design/test_norms_residuals.py",
    "unit/views/heads/test_heads.py",
    "unit/views/heads/test_table.py",
    "unit/views/quantization/test_formats.py",
    "unit/views/sampling/test_many_samples.py",
    "unit/views/sampling/test_side_by_side_branches.py",
    "unit/views/sampling/test_speculative.py",
    "unit/views/test_views_of_experts.py",
    "unit/views/test_views_of_mixers.py",
    "unit/views/training/test_which_mixer.py",
}
# Ways to wire a block, of tests.support.models.helpers.VARIANTS, beyond the two that are always tried: gpt2 and llama.
FURTHER = ("gqa", "qwen3", "neox", "post", "post-rope", "mqa")


def _is_long(item) -> bool:
    """What runs only where everything does: journeys through one view, LONG, further wirings, and what is marked."""
    if item.nodeid.split("::")[0].removeprefix("tests/") in LONG:
        return True
    if "/browser/journeys/" in item.nodeid or item.get_closest_marker("long") is not None:
        return True
    given = getattr(getattr(item, "callspec", None), "params", {})
    return any(given.get(each) in FURTHER for each in ("variant", "name", "wiring") if isinstance(given.get(each), str))


def _import_share(session) -> None:
    """Import the files that this process of several is the first to import: pytest rewrites every assert as it compiles
    a file, which takes most of collecting, and keeps what it made for the others."""
    process, processes = os.environ.get("PYTEST_XDIST_WORKER"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if process is None or sys.dont_write_bytecode:
        return
    files = sorted(file for arg in session.config.args for file in Path(arg).rglob("test_*.py"))
    for file in files[int(process.removeprefix("gw")) :: processes]:
        with contextlib.suppress(Exception):  # it is said as the file is collected
            pytest.Module.from_parent(session, path=file.resolve()).obj  # noqa: B018


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """What is imported and collected stays until the end: it is not searched for garbage, which takes half as long."""
    gc.disable()
    try:
        _import_share(session)
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(100_000, 20, 100)  # a search for garbage is a twentieth of the time otherwise


def pytest_collection_modifyitems(config, items) -> None:
    """The long part left out, unless all is required or a file of it is named; then in the order of their turns."""
    named = any("::" in each or each.endswith(".py") or "journeys" in each for each in config.args)
    if not ALL and not named:
        config.hook.pytest_deselected(items=[item for item in items if _is_long(item)])
        items[:] = [item for item in items if not _is_long(item)]
    items.sort(key=lambda item: _turn(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """How several processes share the tests."""
    from xdist.scheduler import LoadScopeScheduling

    class ByPlace(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _place(nodeid)

    return ByPlace(config, log)


@pytest.fixture(scope="session")
def playwright_driver():
    """Playwright's module and its driver, of which a process can have one: for the page and for the scripts alone."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        yield playwright, driver


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    # That of the CPU: the others note where they were called from, which takes a millisecond.
    torch.default_generator.manual_seed(0)


def _demand(report) -> None:
    """Turn a skip, or an expected failure, into a failure where everything is required to run."""
    if ALL and report.skipped:
        reason = getattr(report, "wasxfail", None) or report.longrepr
        report.__dict__.pop("wasxfail", None)
        report.outcome = "failed"
        report.longrepr = f"REQUIRE_ALL=1, but this did not run: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    _demand(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    _demand(report)
    return report
