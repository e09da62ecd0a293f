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
NAMES = (put_off.COMPILES, put_off.DESCRIBES)
# As whoever is imported first finds them, whatever the tests before have put off.
WHOLE = {name: each.args[0] if isinstance(each := getattr(dataclasses, name), partial) else each for name in NAMES}


@pytest.fixture
def at_once(monkeypatch):
    for name in NAMES:
        monkeypatch.setattr(dataclasses, name, WHOLE[name])


@pytest.fixture
def later(at_once):
    put_off.methods()


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
def test_a_dataclass_is_as_ever(options, at_once):
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
    before = [getattr(dataclasses, name) for name in NAMES]
    put_off.methods()
    assert [getattr(dataclasses, name) for name in NAMES] == before


def test_where_python_compiles_them_together_nothing_is_changed(monkeypatch):
    for name in NAMES:
        monkeypatch.delattr(dataclasses, name)
    put_off.methods()
    assert not [name for name in NAMES if hasattr(dataclasses, name)]


def test_it_is_pickled_by_its_name(later):
    each = make_dataclass("Each", [("at", int)], frozen=True)
    each.__module__, globals()["Each"] = __name__, each
    try:
        assert pickle.loads(pickle.dumps(each(3))) == each(3)
    finally:
        del globals()["Each"]


def test_a_class_is_pickled_whole(later):
    from ray import cloudpickle  # as a cluster sends a class

    below = made({"frozen": True})[0]
    below.__module__ = "elsewhere"  # so that it cannot be found by its name
    there = "import pickle, sys; c = pickle.loads(sys.stdin.buffer.read()); print(c(at=1) == c(at=1), c(at=1))"
    done = subprocess.run(
        [sys.executable, "-c", there], input=cloudpickle.dumps(below), capture_output=True, timeout=120
    )
    assert done.stdout.decode().split(" ", 1)[0] == "True", done.stderr.decode()
    assert done.stdout.decode().rstrip().endswith("Below(at=1, names=[])")


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
from viz.work.playground import Options
assert isinstance(vars(Options)["__eq__"], put_off.Method), vars(Options)["__eq__"]
assert not forms.OpenAPI.__pydantic_complete__
assert forms.OpenAPI(openapi="3.1.0", info={"title": "a", "version": "b"}, paths={}).info.title == "a"
torch.Generator(), torch.nn.Linear(2, 2)(torch.ones(2)).sum().backward()
"""


@pytest.mark.long
def test_the_app_starts_so():
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
