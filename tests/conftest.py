"""Every test runs offline, seeded and on two threads at most; with REQUIRE_ALL=1 a skipped test is a failure."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read once, when huggingface_hub is imported
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is imported: spinning threads starve others

import random

import numpy as np
import pytest
import torch

torch.set_num_threads(min(2, torch.get_num_threads()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Where several processes share the tests, a file's tests stay together, and all that drive the browser."""
    from xdist.scheduler import LoadScopeScheduling

    class ByPlace(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            return "browser" if "/browser/" in file else file

    return ByPlace(config, log)


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def _demand(report) -> None:
    """Turn a skip, or an expected failure, into a failure where everything is required to run."""
    if os.environ.get("REQUIRE_ALL") == "1" and report.skipped:
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
