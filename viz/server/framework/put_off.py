"""What is made only when somebody asks for it, so that the app starts sooner: nothing of it is ever missing.

A dataclass comes with up to six functions that Python compiles from text it writes, and of the thousand dataclasses of
a start few are ever compared, printed or even made. Gradio makes clients for addresses beyond this machine as it is
imported, each with a list of certificates of its own; FastAPI has forms of a description that is not offered; torch
looks up the line of text that each of its own operations is defined in.
"""

import contextlib
import dataclasses
import functools
import inspect
import ssl
from collections.abc import Callable, Iterator

COMPILES, DESCRIBES = "_create_fn", "_repr_fn"  # of dataclasses, up to Python 3.12; later ones compile all at once


class Method:
    """A function of a class that is made, and takes its own place in the class, as soon as it is looked at."""

    def __init__(self, name: str, make: Callable[[], Callable]) -> None:
        self.__name__, self._make = name, make

    def __get__(self, instance: object, owner: type) -> Callable:
        function, name = self._make(), self.__name__
        for each in owner.__mro__:
            if vars(each).get(name) is self:
                function.__qualname__ = f"{each.__qualname__}.{name}"
                setattr(each, name, function)
        return function.__get__(instance, owner)

    def __reduce__(self) -> tuple:
        """Where a class is pickled with all that it has, this is its function."""
        return _as_it_is, (self._make(),)


def _as_it_is(function: Callable) -> Callable:
    return function


def _compiled_later(compiled: Callable, name: str, *texts: object, **spaces: object) -> Callable | Method:
    make = functools.partial(compiled, name, *texts, **spaces)
    return make() if name == "__repr__" else Method(name, make)  # which is put off as a whole, with what wraps it


def _described_later(described: Callable, *given: object) -> Method:
    return Method("__repr__", functools.partial(described, *given))


def methods() -> None:
    """From now on the functions of a new dataclass are put off, where this Python compiles them one by one."""
    for name, later in ((COMPILES, _compiled_later), (DESCRIBES, _described_later)):
        whole = getattr(dataclasses, name, None)
        if whole is not None and not isinstance(whole, functools.partial):
            setattr(dataclasses, name, functools.partial(later, whole))


_certificates = functools.cache(ssl.create_default_context)


@contextlib.contextmanager
def certificates() -> Iterator[None]:
    """Who asks for the usual certificates meanwhile is given the same ones."""
    whole = ssl.create_default_context
    ssl.create_default_context = _certificates
    try:
        yield
    finally:
        ssl.create_default_context = whole


@contextlib.contextmanager
def forms() -> Iterator[None]:
    """The forms of data that pydantic is told of meanwhile are worked out when they are first filled in."""
    from pydantic import BaseModel, ConfigDict

    whole = BaseModel.model_config
    BaseModel.model_config = ConfigDict(**whole, defer_build=True)
    try:
        yield
    finally:
        BaseModel.model_config = whole


@contextlib.contextmanager
def sources() -> Iterator[None]:
    """Who asks where code stands meanwhile is told file and line, without the line's text."""
    whole = inspect.getframeinfo
    inspect.getframeinfo = functools.partial(whole, context=0)
    try:
        yield
    finally:
        inspect.getframeinfo = whole
