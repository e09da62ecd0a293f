"""The exported file: hostile text stays text, and only the file's own scripts run."""

import html.parser
import json
import re

from viz.recorded.onefile import as_json, inlined, page

HOSTILE = "</script><script>alert(1)</script><!--\u2028&amp;\"'"


class Found(html.parser.HTMLParser):
    """The elements of a page with their attributes, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] == "script" and data.strip():
            self.scripts.append(data)


def made() -> str:
    document = {"title": HOSTILE, "queries": [HOSTILE], "language": 'en"><script>'}
    return page(document, script='const a = "</script>";', style="</style>", plotly='const b = "<!-- </SCRIPT>";')


def test_hostile_text_is_read_back_and_runs_nowhere():
    found = Found(made())
    scripts = [attributes for tag, attributes in found.elements if tag == "script"]
    assert len(scripts) == 3 and len(found.scripts) == 3
    assert json.loads(found.scripts[0])["queries"] == [HOSTILE]
    assert [tag for tag, _ in found.elements].count("style") == 1


def test_only_scripts_with_the_nonce_run():
    text = made()
    nonce = re.search(r"script-src 'nonce-([^']+)'", text)[1]
    scripts = [attributes for tag, attributes in Found(text).elements if tag == "script"]
    assert [each.get("nonce") for each in scripts] == [None, nonce, nonce]
    assert scripts[0]["type"] == "application/json" and scripts[2]["type"] == "module"
    assert nonce not in made()
    assert "default-src 'none'" in text and "://" not in text.split("<body>")[0]


def test_json_and_scripts_hold_nothing_that_ends_them():
    assert not re.search("[<>&]", as_json({"x": HOSTILE})) and json.loads(as_json({"x": HOSTILE})) == {"x": HOSTILE}
    assert "</script" not in inlined("</script> </SCRIPT>").lower() and "<!--" not in inlined("<!-- a")
