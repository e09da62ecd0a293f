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

COMPILES = "_create_fn"  # of dataclasses, up to Python 3.12; later ones compile all functions of a class together


class Method:
    """A function of a class that is compiled, and takes its own place in the class, as soon as it is looked at."""

    def __init__(self, compiled: Callable, name: str, *texts: object, **spaces: object) -> None:
        self._compiled = functools.cache(lambda: compiled(name, *texts, **spaces))
        # What is seen of it where it is wrapped once more, as `__repr__` is.
        self.__name__, self.__doc__, self.__module__ = name, None, (spaces.get("globals") or {}).get("__name__")

    def __get__(self, instance: object, owner: type) -> Callable:
        function, name = self._compiled(), self.__name__
        for each in owner.__mro__:
            if vars(each).get(name) is self:
                function.__qualname__ = f"{each.__qualname__}.{name}"
                setattr(each, name, function)
        return function.__get__(instance, owner)

    def __call__(self, *given: object) -> object:
        return self._compiled()(*given)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._compiled())


def methods() -> None:
    """From now on the functions of a new dataclass are put off, where this Python compiles them one by one."""
    compiled = getattr(dataclasses, COMPILES, None)
    if compiled is not None and not isinstance(compiled, functools.partial):
        setattr(dataclasses, COMPILES, functools.partial(Method, compiled))


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
