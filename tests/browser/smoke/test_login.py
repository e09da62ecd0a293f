"""Logging in and out, as a person does."""

import pytest

from tests.browser.conftest import FIRST
from tests.support.visitor import SOON, expect

pytestmark = pytest.mark.browser


def test_a_person_logs_in_and_out(start_app, profile, tmp_path):
    people = tmp_path / "people"
    people.write_text("ann:secret\n", encoding="utf-8")
    url = start_app("--offline", "--login", str(people))
    page = profile.new_page()
    page.goto(url)
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector(FIRST, timeout=SOON)
    more = page.locator(".pg-more")
    if more.is_visible():
        more.click()
    leave = page.get_by_role("button", name="Log out")
    assert leave.get_attribute("title") == "You are logged in as ann."
    leave.click()
    expect(page.get_by_label("Password")).to_be_visible(timeout=SOON)
    assert page.request.get(url + "config").status == 401
    page.close()
