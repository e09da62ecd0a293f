"""The tab of checks as a visitor uses it: the quick ones at once, all by the button, a new prompt begins anew."""

import re

import pytest

from model.checks.registry import CHECKS, GROUPS
from tests.support.visitor import SOON, expect, open_tab

pytestmark = pytest.mark.browser


def test_checks_from_the_first_look_to_a_new_prompt(open_page):
    page = open_page()
    open_tab(page, "Checks")
    table, verdict = page.locator("#pg-checks_table [data-run]"), page.locator(".pg-check-verdict")
    row = page.locator(".pg-check-row")
    expect(row).to_have_count(len(CHECKS), timeout=SOON)
    expect(verdict).to_have_attribute("data-state", "agrees")
    expect(verdict).to_contain_text("have not been run yet")
    waiting = page.locator('.pg-check-row[data-state="waiting"]')
    left = waiting.count()
    assert 0 < left < len(CHECKS) / 2
    # A row opens by the keyboard, and says how it is checked.
    name = page.get_by_role("button", name="Rows sum to 1")
    name.press("Enter")
    expect(name).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".pg-check-details")).to_contain_text("Σⱼ A[i, j] = 1")
    expect(page.locator(".pg-check-details pre")).to_contain_text("run_checks(subject, ['rows'])")
    # Its place is picked on all tabs.
    page.locator('.pg-check-row[data-key="rows"] .pg-check-go').click()
    expect(page.locator('#pg-tokens .pg-chip[aria-pressed="true"]')).to_have_count(1)
    first = table.get_attribute("data-run")
    page.get_by_role("button", name="Run all checks").click()
    expect(page.locator("#pg-checks_job [data-part]")).to_have_attribute("data-state", "done", timeout=2 * SOON)
    expect(waiting).to_have_count(0, timeout=SOON)
    expect(verdict).to_have_attribute("data-state", "agrees")
    expect(verdict).to_contain_text(f"{len(CHECKS)} of {len(CHECKS)} agree.")
    expect(page.locator(".pg-check-details")).to_have_count(1)  # what was open stays open
    page.locator("#prompt textarea").fill('A <img src=x onerror="alert(1)"> cat')
    expect(table).not_to_have_attribute("data-run", first, timeout=SOON)
    expect(waiting).to_have_count(left, timeout=SOON)
    expect(page.get_by_role("button", name="Run all checks")).to_be_enabled()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(verdict).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    # On a phone the groups are folded, with how their checks ended on the fold.
    groups = page.locator(".pg-check-group button")
    expect(page.locator(".pg-check-row:visible")).to_have_count(0)
    expect(page.locator(".pg-check-group")).to_have_text([re.compile(r": \d+$")] * len(GROUPS))
    assert page.evaluate("document.documentElement.scrollHeight") < 2000
    groups.nth(1).click()
    expect(groups.nth(1)).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".pg-check-row:visible")).to_have_count(len([*GROUPS.values()][1]))
