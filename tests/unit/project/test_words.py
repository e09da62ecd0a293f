"""Both languages say everything, with the same things to fill in, and every key the page asks for exists."""

import ast
import re
import string
from pathlib import Path

import pytest

from model.gpt.head_metrics import HEAD_METRICS
from viz.words import LANGUAGES, pick_language, words

VIZ = Path(__file__).parents[3] / "viz"
ENGLISH = words("en")


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_a_folder_of_words_is_a_language():
    folders = {path.name for path in (VIZ / "words").iterdir() if path.is_dir()}
    assert LANGUAGES[0] == "en" and set(LANGUAGES) == folders >= {"en", "zh"}
    assert len(ENGLISH) > 50


@pytest.mark.parametrize("language", LANGUAGES)
def test_same_keys(language: str):
    assert set(words(language)) == set(ENGLISH)


@pytest.mark.parametrize("language", LANGUAGES)
def test_same_placeholders_and_no_empty_text(language: str):
    texts = words(language)
    empty = [key for key, text in texts.items() if not isinstance(text, str) or not text or text.strip() != text]
    other = [key for key, text in texts.items() if fields(text) != fields(ENGLISH[key])]
    assert not empty and not other


def test_chinese_is_chinese():
    """Short names, signs and units aside, a text has characters of the language it is in."""
    latin = {key for key, text in words("zh").items() if not any("一" <= c <= "鿿" for c in text)}
    assert latin <= {key for key, text in ENGLISH.items() if len(re.sub(r"{\w+}", "", text)) < 12}


def test_every_metric_has_a_name_an_explanation_and_a_unit():
    asked = {f"{table}.{key}" for table in ("metric", "metric_help") for key in HEAD_METRICS}
    asked |= {f"heads.units.{metric.unit.replace(' ', '_')}" for metric in HEAD_METRICS.values()}
    missing = sorted(asked - set(ENGLISH))
    assert not missing


def test_every_key_the_code_asks_for_exists():
    sections = {key.split(".")[0] for key in ENGLISH}
    asked = set()
    for path in VIZ.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                key = node.slice.value
                if isinstance(key, str) and "." in key and key.split(".")[0] in sections:
                    asked.add(key)
    assert len(asked) > 10
    assert asked <= set(ENGLISH), sorted(asked - set(ENGLISH))


def test_an_unknown_language_is_english():
    assert words("fr") == ENGLISH
    assert words("../../secret") == ENGLISH


@pytest.mark.parametrize(
    ("asked", "accepted", "language"),
    [
        (None, None, "en"),
        ("", "", "en"),
        ("zh", None, "zh"),
        ("ZH-Hans", "en", "zh"),
        ("en", "zh-CN,zh;q=0.9", "en"),
        ("fr", "zh-CN,zh;q=0.9", "zh"),
        (None, "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        (None, "fr-FR, de;q=0.9, zh;q=0.5, en;q=0.3", "zh"),
        (None, "en-GB,zh;q=0.5", "en"),
        (None, "fr,de", "en"),
        (None, ";;,,=*", "en"),
        ("<script>", "*", "en"),
    ],
)
def test_the_language_of_a_reader(asked: str | None, accepted: str | None, language: str):
    assert pick_language(asked, accepted) == language
