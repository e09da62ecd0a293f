"""Every language says everything, with the same things to fill in, and every key the page asks for exists."""

import ast
import re
import string
from collections.abc import Iterable
from pathlib import Path

import pytest

from model.errors import InputError
from model.tracing.head_metrics import HEAD_METRICS
from viz.words import LANGUAGES, own_texts, pick_language, words

VIZ = Path(__file__).parents[3] / "viz"
ENGLISH = own_texts("en")


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_a_folder_of_words_is_a_language():
    folders = {path.name for path in (VIZ / "words").iterdir() if path.is_dir()}
    assert LANGUAGES[0] == "en" and set(LANGUAGES) == folders >= {"en", "zh"}
    assert len(ENGLISH) > 50


def listed(what: str, keys: Iterable[str]) -> None:
    """Fail with all of them: pytest would cut a long set."""
    if found := sorted(keys):
        pytest.fail("\n".join([f"{what}:", *found]), pytrace=False)


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_same_keys(language: str):
    texts = own_texts(language)
    listed(f"{language} has no words for", set(ENGLISH) - set(texts))
    listed(f"only {language} has", set(texts) - set(ENGLISH))


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_no_text_was_left_in_english(language: str):
    """Short names, signs and units may be the same."""
    same = {key for key, text in own_texts(language).items() if text == ENGLISH.get(key) and not short(key, text)}
    listed(f"not yet in {language}", same)


@pytest.mark.parametrize("language", LANGUAGES)
def test_same_placeholders_and_no_empty_text(language: str):
    texts = own_texts(language)
    empty = [key for key, text in texts.items() if not isinstance(text, str) or not text or text.strip() != text]
    other = [key for key, text in texts.items() if key in ENGLISH and fields(text) != fields(ENGLISH[key])]
    assert not empty and not other


def short(key: str, text: str) -> bool:
    """Return whether it may be the same in every language: a name, sign, unit, term, formula and its source."""
    return key.endswith((".term", ".howto.formula")) or len(re.sub(r"{\w+}", "", text)) < 12


def test_chinese_is_chinese():
    """Short names, signs and units aside, a text has characters of the language it is in."""
    latin = {key for key, text in own_texts("zh").items() if not any("一" <= c <= "鿿" for c in text)}
    assert latin <= {key for key, text in ENGLISH.items() if short(key, text)}


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
    assert words("qq") == words("en") == ENGLISH
    assert words("../../secret") == ENGLISH


@pytest.fixture
def qq(tmp_path: Path, monkeypatch) -> Path:
    """A folder for a language that nobody speaks, beside an English of three texts."""
    monkeypatch.setattr("viz.words._FOLDER", tmp_path)
    monkeypatch.setattr("viz.words.LANGUAGES", ("en", "qq"))
    for language in ("en", "qq"):
        (tmp_path / language / "tab").mkdir(parents=True)
    (tmp_path / "en" / "page.toml").write_text('[page]\ntitle = "Title"\nview = "View"', encoding="utf-8")
    (tmp_path / "en" / "tab" / "map.toml").write_text('[map]\nabout = "A map."', encoding="utf-8")
    return tmp_path / "qq"


def test_what_a_language_does_not_say_is_english(qq):
    (qq / "page.toml").write_text('[page]\ntitle = "Qq"', encoding="utf-8")
    assert words.__wrapped__("qq") == {"page.title": "Qq", "page.view": "View", "map.about": "A map."}
    assert own_texts("qq") == {"page.title": "Qq"}


@pytest.mark.parametrize("content", [b"[page\n", b"[page]\ntitle = 'Qq", b"\xff"])
def test_a_broken_file_of_words_is_named(qq, content):
    (qq / "tab" / "map.toml").write_bytes(content)
    with pytest.raises(InputError, match=r"qq/tab/map\.toml"):
        words.__wrapped__("qq")


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
        ("pt", None, "pt"),
        ("pt-BR", None, "pt-br"),
        ("pt_BR", None, "pt-br"),
        ("pt-PT", "pt-BR", "pt"),
        ("pt-BR-x-rio", None, "pt-br"),
        (None, "fr, pt-BR;q=0.9,zh", "pt-br"),
        ("fil", "zh", "zh"),
        ("-", "zh", "zh"),
        (None, "en-GB,zh;q=0.5", "en"),
        (None, "fr,de", "en"),
        (None, ";;,,=*", "en"),
        ("<script>", "*", "en"),
    ],
)
def test_the_language_of_a_reader(monkeypatch, asked: str | None, accepted: str | None, language: str):
    monkeypatch.setattr("viz.words.LANGUAGES", ("en", "fi", "pt", "pt-br", "zh"))
    assert pick_language(asked, accepted) == language
