"""What a start puts off is there as soon as somebody looks at it, and is what it would have been."""

import copy
import dataclasses
import inspect
import pickle
import ssl
import subprocess
import sys
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from types import FunctionType

import pytest

from viz.server.framework import put_off

METHODS = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__lt__", "__ge__")
KINDS = [{}, {"frozen": True}, {"order": True}, {"eq": False}, {"slots": True, "frozen": True}, {"kw_only": True}]
KINDS += [{"repr": False, "unsafe_hash": True}, {"init": False}, {"frozen": True, "order": True}]
# As whoever is imported first finds it, whatever the tests before have put off.
WHOLE = dataclasses._create_fn.args[0] if isinstance(dataclasses._create_fn, partial) else dataclasses._create_fn


@pytest.fixture
def later(monkeypatch):
    monkeypatch.setattr(dataclasses, put_off.COMPILES, WHOLE)
    put_off.methods()


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(dataclasses, put_off.COMPILES, WHOLE)


def made(options: dict) -> tuple[type, type]:
    """A class and one that inherits from it."""

    class Below:
        """Documented, so that nobody asks for its arguments."""

        at: int
        names: list = field(default_factory=list)

    class Above(Below):
        """So that it has functions of its own."""

        more: str = "x"

    for each, fields in ((Below, {"at": int, "names": list}), (Above, {"more": str})):
        each.__annotations__ = fields
    below = dataclass(**options)(Below)
    if options.get("slots"):
        return below, below
    return below, dataclass(**options)(Above)


def told(options: dict) -> list:
    """All that can be seen of such classes and of what is made of them."""
    below, above = made(options)
    seen: list = [str(inspect.signature(below)), str(inspect.signature(above))]
    if options.get("init", True):
        one, same, other = below(at=1), below(at=1, names=[]), above(at=2, names=["a"])
        seen += [one == same, one != other, dataclasses.asdict(other), dataclasses.replace(one, at=3).at]
        seen += [copy.deepcopy(one).names, repr(other) if options.get("repr", True) else ""]
        for change in (
            lambda: setattr(one, "at", 5),
            lambda: delattr(same, "at"),
            lambda: hash(one) == hash(same),
            lambda: one < same,
        ):
            try:
                seen.append(change() or one.at)
            except Exception as error:
                seen.append((type(error).__name__, str(error)))
    for each in (below, above):
        for name in METHODS:
            function = getattr(each, name)
            seen.append((name, type(function).__name__, getattr(function, "__qualname__", ""), function.__doc__))
            if isinstance(function, FunctionType):
                seen.append((str(inspect.signature(function)), function.__module__, function.__name__))
    return seen


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_a_dataclass_is_as_ever(options, monkeypatch):
    monkeypatch.setattr(dataclasses, put_off.COMPILES, WHOLE)
    as_ever = told(options)
    put_off.methods()
    assert told(options) == as_ever


def test_nothing_is_compiled_before_it_is_looked_at(later):
    below, above = made({"frozen": True})
    assert all(
        isinstance(vars(each)[name], put_off.Method) for each in (below, above) for name in ("__init__", "__eq__")
    )
    one = above(at=1)
    assert isinstance(vars(above)["__init__"], FunctionType)  # in its place, for every further call
    assert isinstance(vars(below)["__init__"], put_off.Method) and isinstance(vars(above)["__eq__"], put_off.Method)
    assert one == above(at=1) and isinstance(vars(above)["__eq__"], FunctionType)


def test_what_a_class_inherits_is_compiled_where_it_stands(later):
    below = made({"frozen": True})[0]
    child = type("Child", (below,), {})
    assert child(at=1) == child(at=1)
    assert isinstance(vars(below)["__init__"], FunctionType) and "__init__" not in vars(child)


def test_putting_off_twice_is_putting_off_once(later):
    before = dataclasses._create_fn
    put_off.methods()
    assert dataclasses._create_fn is before


def test_where_python_compiles_them_together_nothing_is_changed(monkeypatch):
    monkeypatch.delattr(dataclasses, put_off.COMPILES)
    put_off.methods()
    assert not hasattr(dataclasses, put_off.COMPILES)


def test_it_is_pickled_by_its_name(later):
    each = make_dataclass("Each", [("at", int)], frozen=True)
    each.__module__, globals()["Each"] = __name__, each
    try:
        assert pickle.loads(pickle.dumps(each(3))) == each(3)
    finally:
        del globals()["Each"]


def test_the_usual_certificates_are_read_once():
    whole = ssl.create_default_context
    with put_off.certificates():
        one = ssl.create_default_context()
        assert ssl.create_default_context() is one
        assert one.verify_mode is ssl.CERT_REQUIRED and one.check_hostname and one.get_ca_certs() is not None
    assert ssl.create_default_context is whole and ssl.create_default_context() is not one


def test_a_form_is_worked_out_when_it_is_filled_in():
    from pydantic import BaseModel, ValidationError

    with put_off.forms():

        class Form(BaseModel):
            at: int

    class Other(BaseModel):
        at: int

    assert not Form.__pydantic_complete__ and Other.__pydantic_complete__
    assert Form(at="3").at == 3 and Form.__pydantic_complete__
    with pytest.raises(ValidationError):
        Form(at="x")


def test_where_code_stands_is_told_without_its_text():
    with put_off.sources():
        here = inspect.getframeinfo(inspect.currentframe())
    assert (here.filename, here.function) == (__file__, "test_where_code_stands_is_told_without_its_text")
    assert here.code_context is None and inspect.getframeinfo(inspect.currentframe()).code_context


STARTED = """
import app
from viz.server.framework import put_off
options = app.parse(["--offline"])
app.environment(options)
put_off.methods()
with put_off.sources():
    app.use_threads(2)
from viz.server.framework import stubs
stubs.load(mcp=False)
import fastapi.openapi.models as forms, model.records, dataclasses, inspect, torch
from viz.seam.playground import Options
assert isinstance(vars(Options)["__eq__"], put_off.Method), vars(Options)["__eq__"]
assert not forms.OpenAPI.__pydantic_complete__
assert forms.OpenAPI(openapi="3.1.0", info={"title": "a", "version": "b"}, paths={}).info.title == "a"
torch.Generator(), torch.nn.Linear(2, 2)(torch.ones(2)).sum().backward()
"""


def test_the_app_starts_so():
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
