"""The examples in the documentation do what they say, and the public functions say what they take and give."""

import doctest
import inspect
from pathlib import Path

import pytest

from model import api
from model.checks import registry
from model.tracing import trace
from viz.page import notebook

ROOT = Path(__file__).parents[3]


def test_the_examples_of_the_api_page_give_what_they_show():
    result = doctest.testfile(
        str(ROOT / "docs" / "api.md"), module_relative=False, optionflags=doctest.ELLIPSIS, verbose=False
    )
    assert result.attempted > 40 and result.failed == 0


def test_the_example_of_the_notebook_runs():
    result = doctest.testmod(notebook)
    assert result.attempted == 4 and result.failed == 0


def public(module) -> list:
    """The functions of a module that others call, and those of its classes."""
    found = []
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", "") != module.__name__:
            continue
        if inspect.isclass(thing):
            found += [
                member for key, member in vars(thing).items() if inspect.isfunction(member) and not key.startswith("_")
            ]
        elif inspect.isfunction(thing):
            found.append(thing)
    return found


@pytest.mark.parametrize("module", [api, trace, notebook, registry], ids=lambda module: module.__name__)
def test_public_functions_are_typed_and_documented(module):
    assert public(module)
    for function in public(module):
        signature = inspect.signature(function)
        untyped = [
            name
            for name, given in signature.parameters.items()
            if name not in ("self", "cls") and given.annotation is inspect.Parameter.empty
        ]
        assert not untyped, f"{function.__qualname__}: {untyped}"
        assert signature.return_annotation is not inspect.Signature.empty, function.__qualname__
        assert inspect.getdoc(function), function.__qualname__
