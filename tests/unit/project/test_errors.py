"""What the model code and the tabs say to a person has a translation in every language, sentence by sentence."""

import ast
import functools
import pickle
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from model import errors
from viz.words import LANGUAGES, translate

ROOT = Path(__file__).parents[3]
ERRORS = {name for name, value in vars(errors).items() if isinstance(value, type)}


@functools.cache
def translations(language: str) -> dict[str, str]:
    """What a language's file holds; a language without one has translated nothing."""
    path = ROOT / "viz" / "words" / language / "errors" / "errors.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def sentences(node: ast.AST, names: dict[str, ast.AST]) -> Iterator[str]:
    """The sentences an expression can be, "{}" for what is filled in; names are looked up, other calls are not."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):  # not to be translated: values belong to `say`
        yield "f" + ast.unparse(node)
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say":
        yield from sentences(node.args[0], names)
    elif isinstance(node, ast.IfExp):
        yield from sentences(node.body, names)
        yield from sentences(node.orelse, names)
    elif isinstance(node, ast.Name) and node.id in names:
        yield from sentences(names[node.id], {})


def assignments(body: ast.AST) -> dict[str, ast.AST]:
    """Values of simple assignments below a node."""
    found = [node for node in ast.walk(body) if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    return {node.targets[0].id: node.value for node in found}


@functools.cache
def said_by(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said: set[str] = set()
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.FunctionDef):
            continue
        names = assignments(ast.Module([node for node in tree.body if isinstance(node, ast.Assign)], []))
        names |= assignments(scope)
        for call in ast.walk(scope):
            # An error of its own kind says its sentence by super().__init__.
            if isinstance(call, ast.Call) and ast.unparse(call.func) in (*ERRORS, "super().__init__"):
                for argument in (*call.args[:1], *call.args[2:3]):
                    said |= set(sentences(argument, names))
    return {sentence for sentence in said if sentence.strip("{}")}


@functools.cache
def templates(path: Path) -> set[str]:
    """The templates of all calls of `say`, also of notes and of values that an error got."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = assignments(ast.Module([node for node in tree.body if isinstance(node, ast.Assign)], []))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say")
    return {sentence for call in calls for argument in call.args[:1] for sentence in sentences(argument, names)}


SPEAKING = sorted(path for folder in ("model", "viz") for path in (ROOT / folder).rglob("*.py"))


def listed(what: str, found: set[str]) -> None:
    """Fail with all of them: pytest would cut a long set."""
    if found:
        pytest.fail("\n".join([f"{what}:", *sorted(found)]), pytrace=False)


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_sentence_is_translated(language):
    said = set().union(*map(said_by, SPEAKING), *map(templates, (ROOT / "model" / "recorded").glob("*.py")))
    listed(f"errors/errors.toml of {language} lacks", said - set(translations(language)))


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_no_translation_is_left_over(language):
    said = set().union(*(said_by(path) | templates(path) for path in SPEAKING))
    listed(f"errors/errors.toml of {language} translates what nobody says", set(translations(language)) - said)


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_translations_fill_in_the_same_number_of_things(language):
    for english, other in translations(language).items():
        assert english.count("{}") == other.count("{}"), english
        assert other != english and (language != "zh" or re.search(r"[\u4e00-\u9fff]", other)), english


def test_translate_fills_in_and_leaves_the_unknown_alone():
    hint = errors.say("Shorten it to {} tokens or fewer.", 700)
    assert hint == "Shorten it to 700 tokens or fewer." and translate(hint, "zh") == "请缩短到 700 个词元以内。"
    assert translate(errors.InputError("x", "", hint).hint, "zh") == translate(pickle.loads(pickle.dumps(hint)), "zh")
    assert translate("The prompt is empty.", "zh") == "提示词为空。"
    assert translate("Never said anywhere.", "zh") == "Never said anywhere."
    assert translate("The prompt is empty.", "en") == "The prompt is empty."
