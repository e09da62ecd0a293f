"""The views of tiny trainings as a visitor uses them: pictures at once, a job that is cancelled, another language."""

import pytest

from tests.support.visitor import SOON, expect, open_tab

pytestmark = pytest.mark.browser


def test_gradients_and_functions_are_there_at_once(open_page):
    page = open_page()
    open_tab(page, "Design")
    page.get_by_role("tab", name="Norms & residuals").click()
    page.locator("#pg-norms_residuals_starts .main-svg").first.wait_for(timeout=SOON)
    expect(page.locator("#pg-norms_residuals_start_facts")).to_contain_text("Layer 0", timeout=SOON)
    page.locator("#pg-norms_residuals_form select").nth(0).select_option("4")
    expect(page.locator("#pg-norms_residuals_starts h2")).to_contain_text("4 layers", timeout=SOON)
    job = page.locator("#pg-norms_residuals_train_job [data-part]")
    for state in ("running", "idle"):  # started, then cancelled
        page.evaluate(
            "document.querySelector('#pg-norms_residuals_train_job button').click()"
        )  # it is redrawn all the time
        expect(job).to_have_attribute("data-state", state, timeout=SOON)
    page.get_by_role("tab", name="SwiGLU or GELU").click()
    page.locator("#pg-mlps_left .main-svg").first.wait_for(timeout=SOON)
    expect(page.locator("#pg-mlps_cost .pg-lab-same")).to_contain_text("0")
    page.locator("#pg-mlps_form select").select_option("gate")
    expect(page.locator("#pg-mlps_left h2")).to_contain_text("SwiGLU", timeout=SOON)
