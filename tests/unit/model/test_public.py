"""Every public function refuses odd values of each argument, one at a time, by the argument's name."""

import ast
import functools
import importlib
import math
import re
import typing
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from model.errors import InputError, PlaygroundError
from model.public import above, array, between, check_alike, is_of, one_of, public, whole, without_checks
from tests.support.models.helpers import byte_model
from tests.support.models.valid_calls import ROWS, Given

ROOT = Path(__file__).parents[3]
# Settings that the functions which take them check, and results that only the project makes.
CHECKED_WHERE_USED = {"Draft", "Edit", "DecodingPlan", "Request", "Step", "Target", "VectorFile", "language_model"}
RESULTS = {
    "Attribution",
    "Clocked",
    "Code",
    "ComponentTime",
    "Excerpt",
    "Forward",
    "Passed",
    "QuestionSet",
    "Similarity",
    "Space",
    "Tokens",
}
BY_MODEL = ("layer", "head", "position", "token")  # of which there is a first one in every model
WITHOUT_ARGUMENTS = {"bundled", "bundled_text", "chapter", "list_models", "optimal_lines"}


@functools.cache
def decorated() -> frozenset[str]:
    """Return the names of all functions, methods and dataclasses marked `public`."""
    found = set()
    for path in (ROOT / "model").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if "model.public" not in source:
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for owner in [(tree := ast.parse(source)), *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
            for node in owner.body:
                marks = [ast.unparse(each) for each in getattr(node, "decorator_list", ())]
                if any(mark.startswith("public(") for mark in marks):
                    found.add(".".join([module, *([owner.name] if isinstance(owner, ast.ClassDef) else []), node.name]))
    return frozenset(found)


@functools.cache
def offered() -> frozenset[tuple[str, str]]:
    """Return (module, name) of what docs and the Python lines of the page import."""
    found = set()
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    lines = [*(ROOT / "viz" / "views").rglob("*.py"), *(ROOT / "viz" / "seam").rglob("*.py")]
    for paths, before in ((documents, r"(?:^|>>> |\.\.\. )"), (lines, r"[\"'(]\s*")):
        for path in paths:
            text = path.read_text(encoding="utf-8")
            for module, names in re.findall(before + r"from (model(?:\.\w+)+) import ([\w, ]+)", text, re.M):
                found |= {(module, name.strip().split(" as ")[0]) for name in names.split(",") if name.strip()}
    return frozenset(found)


def test_every_public_function_has_a_row_and_every_row_a_function():
    assert set(ROWS) == decorated()


def test_what_docs_and_the_page_offer_is_public():
    lacking = []
    for module, name in sorted(offered()):
        assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"
        thing = getattr(importlib.import_module(module), name)
        is_error = isinstance(thing, type) and issubclass(thing, Exception)
        if not callable(thing) or is_error or name in CHECKED_WHERE_USED | RESULTS | WITHOUT_ARGUMENTS:
            continue
        if not hasattr(thing, "__checks__"):
            lacking.append(f"{module}.{name}")
    assert not lacking


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    return Given(byte_model(tmp_path_factory.mktemp("bytes"), n_ctx=40))


def resolved(key: str, given: Given) -> typing.Any:
    """Return the function of a row, bound to its owner where it is a method."""
    if (owner := ROWS[key].owner) is not None:
        return getattr(owner(given), key.rpartition(".")[2])
    module, _, name = key.rpartition(".")
    return getattr(importlib.import_module(module), name)


ODD = {
    "None": None,
    "text": "no such thing",
    "empty text": "",
    "list": [None],
    "empty": (),
    "True": True,
    "object": object(),
    "three": 3,
    "negative": -1,
    "zero": 0,
    "half": 2.5,
    "nan": math.nan,
    "inf": math.inf,
    "huge": 10**30,
}


def odd_shapes(value: object) -> dict[str, object]:
    """Return arrays of other shapes than this one, and one with a NaN."""
    if not isinstance(value, np.ndarray | Tensor):
        return {}
    longer = np.concatenate([value, value[:1]]) if isinstance(value, np.ndarray) else torch.cat([value, value[:1]])
    odd = {"empty": value[:0], "longer": longer, "deeper": value[None]}
    if "float" in str(value.dtype):
        with_nan = value.copy() if isinstance(value, np.ndarray) else value.clone()
        with_nan[(0,) * value.ndim] = math.nan
        odd["nan"] = with_nan
    return odd


def may_be(label: str, value: object, hint: object, value_now: object) -> bool:
    """Return whether an odd value is legal by the annotation alone: None for an optional argument, True for a bool."""
    options = typing.get_args(hint) or (hint,)
    if label == "None":
        return is_of(None, hint)
    if label == "True":
        return bool in options
    if label == "three":
        return (int in options or float in options) and not isinstance(value_now, str)
    return hint is object or isinstance(hint, typing.TypeVar)


@pytest.mark.parametrize("key", sorted(ROWS))
def test_odd_values_are_refused_by_the_name_of_the_argument(given, key):
    row, function = ROWS[key], resolved(key, given)
    valid = row.given(given)
    target = function.__init__ if isinstance(function, type) else function
    hints = typing.get_type_hints(target)
    wrong = []
    for name, now in valid.items():
        legal = re.split(r", ", row.legal.get(name, ""))
        for label, odd in {**ODD, **{f"array {k}": v for k, v in odd_shapes(now).items()}}.items():
            short = label.removeprefix("array ")
            if short in legal or legal == ["all"] or may_be(label, odd, hints.get(name, object), now):
                continue
            if (label == "empty text" and "empty" in legal) or (label == "zero" and name in BY_MODEL):
                continue
            try:
                door(function, row.slow, {**valid, name: odd}, name)
            except (PlaygroundError, ValueError) as error:
                if not re.search(f"{name}|{row.words.get(name, name)}", str(error), re.IGNORECASE):
                    wrong.append(f"{name}, {label}: refused without its name: {error}")
            except Exception as error:
                wrong.append(f"{name}, {label}: {type(error).__name__}: {error}")
            else:
                wrong.append(f"{name}, {label}: accepted")
    assert not wrong, "\n".join(["", *wrong])


def door(function: typing.Any, slow: bool, values: Mapping[str, object], name: str) -> None:
    """Call a function; of a slow one only what is checked before its body runs."""
    if slow:
        function.__checks__()[name](name, values[name])
    else:
        function(**values)


def test_a_valid_call_passes(given):
    for key, row in ROWS.items():
        if not row.slow:
            checks = resolved(key, given).__checks__()
            for name, value in row.given(given).items():
                if value is not None:
                    checks[name](name, value)


# --- the checks themselves ---------------------------------------------------------------------------------


@public(n=whole(1, 9), share=between(0, 1), rate=above(0), kind=one_of(("a", "b")), x=array("N"))
def example(n: int = 1, share: float = 0.5, rate: float = 1.0, kind: str = "a", x: np.ndarray | None = None) -> tuple:
    """Return what was given."""
    return n, share, rate, kind, x


def test_what_fits_passes_unchanged():
    x = np.ones(3)
    assert example(9, 1, rate=0.1, kind="b", x=x) == (9, 1, 0.1, "b", x)
    assert example(np.int64(2), np.float32(0.5), x=None)[0] == 2


def test_a_refusal_says_what_was_got_and_what_was_expected():
    with pytest.raises(InputError, match=r"Got: n: 0\. Choose a whole number from 1 to 9\."):
        example(0)
    with pytest.raises(InputError, match=r"Got: kind: c\. Choose one of: a, b\."):
        example(kind="c")
    with pytest.raises(InputError, match=r"Got: x: list\. Expected: ndarray \| None\."):
        example(x=[1.0])
    with pytest.raises(InputError, match=r"Got: x: \(1, 3\)\. Expected: \[N\]\."):
        example(x=np.ones((1, 3)))
    with pytest.raises(InputError, match=r"chosen \(3,\), rejected \(2,\)"):
        check_alike(chosen=np.ones(3), rejected=np.ones(2))


def test_an_array_may_be_empty_only_where_its_rule_says_so():
    array("N", empty=True)("x", np.ones(0))
    with pytest.raises(InputError, match=r"Got: x: \(0,\)\. Expected: \[N\]\."):
        array("N")("x", np.ones(0))


def test_callers_within_the_project_may_leave_the_checks_out():
    assert without_checks(example)(0)[0] == 0


def test_names_of_an_annotation_and_large_bounds_are_written_out():
    @public(n=whole(1))
    def ranked(by: typing.Literal["size", "name"] = "size", n: int = 1, at: typing.Sequence = ()) -> typing.Sequence:
        return at

    with pytest.raises(InputError, match=r"unknown value\. Got: by: age\. Choose one of: size, name\."):
        ranked("age")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"from 1 to 1048576\."):
        ranked(n=2**20 + 1)
    assert len(ranked(at=np.array([2, 1]))) == 2


def test_missing_and_unknown_arguments_are_what_python_says():
    with pytest.raises(TypeError, match="unexpected keyword"):
        example(budget=1)
    with pytest.raises(TypeError, match="no argument budget"):
        public(budget=whole(1))(lambda n: n)


def test_kinds_of_entries_count():
    assert is_of([1, np.int64(2)], list[int]) and not is_of([1, 2.0], list[int])
    assert is_of(("a", 1.5), tuple[str, float]) and not is_of(("a",), tuple[str, float])
    assert is_of(np.array([1, 2]), typing.Sequence[int]) and not is_of("12", typing.Sequence[str])
    assert not is_of([1.0, math.nan], list[float]) and not is_of({"a": "b"}, Mapping[str, int])
