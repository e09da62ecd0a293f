"""Checks of the arguments of public functions and dataclasses at each call: types, ranges and shapes.

Every rejection is an InputError that names the argument, the value and what was expected. model/arguments.py checks
single values inside a function: a layer, a position, a token.
"""

import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from numbers import Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np

from model.arguments import check_number, check_whole, is_number, is_whole, shown
from model.errors import InputError, say

Check = Callable[[str, Any], None]  # (name, value): raises InputError for an invalid value
Target = TypeVar("Target", bound=Callable)

MOST = 1 << 20  # maximum of a count without its own bound: tokens, keys, cases
MOST_SEED = 1 << 53
# Arguments whose bounds depend on the model: the function calls check_layer, check_head ..., which check their types.
_BY_MODEL = ("layer", "head", "position", "token")
_EXACT = (int, float, bool, str, np.ndarray)  # a value of exactly this type is valid without further checks
_LISTS = (Sequence, Collection, Iterable, Set, list, tuple, set, frozenset)


# --- the door ----------------------------------------------------------------------------------------------


def public(**rules: Check) -> Callable[[Target], Target]:
    """Mark a function or a dataclass as public, and check its arguments before its body runs.

    Every argument must match its annotation; a float must be finite. A rule, built by `whole`, `between`, `one_of`,
    `array` ... below, restricts the values of the argument of that name. An optional argument may be None regardless
    of its rule. Defaults are not checked. Raises InputError at a call, TypeError at decoration if a rule has no
    argument.
    """

    def door(target: Target) -> Target:
        function: Callable = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]
        if unknown := rules.keys() - inspect.signature(function).parameters.keys():
            raise TypeError(f"{target.__qualname__} has no argument {', '.join(unknown)}")

        names = inspect.signature(function).parameters
        variadic = next((name for name, each in names.items() if each.kind is each.VAR_POSITIONAL), "")
        named = [name for name, each in names.items() if each.kind is each.POSITIONAL_OR_KEYWORD]

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            checks = all_checks()
            for (name, check), value in zip(checks.items(), args[: len(named)], strict=False):
                check(name, value)
            for place, value in enumerate(args[len(named) :] if variadic else ()):
                checks[variadic](f"{variadic}[{place}]", value)
            for name, value in kwargs.items():
                if name in checks:
                    checks[name](name, value)
            return function(*args, **kwargs)

        @functools.cache
        def all_checks() -> dict[str, Check]:  # at the first call, when every name in an annotation is defined
            return _checks(function, rules)

        if isinstance(target, type):
            target.__init__ = checked  # type: ignore[misc]
            target.__checks__ = all_checks  # type: ignore[attr-defined]
            return target
        checked.__checks__ = all_checks  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return door


def without_checks(function: Target) -> Target:
    """Return a public function without the checks of its arguments.

    For internal callers that report nonfinite numbers themselves, or that call it for each token with arguments
    already checked.
    """
    return function.__wrapped__  # type: ignore[attr-defined, no-any-return]


def _checks(function: Callable, rules: Mapping[str, Check]) -> dict[str, Check]:
    """Build the check of each argument, in order."""
    hints = typing.get_type_hints(function, include_extras=True)
    return {
        name: _check(hints.get(name, Any), rules.get(name), name) for name in inspect.signature(function).parameters
    }


def _check(hint: Any, rule: Check | None, name: str) -> Check:
    """Build the check of an argument with this annotation."""
    bare = [each for each in _options(hint) if each is not type(None)]
    optional = len(bare) < len(_options(hint))
    is_list = any((get_origin(each) or each) in _LISTS for each in bare)
    kind = bare[0] if len(bare) == 1 and bare[0] in _EXACT else None
    # A rule for one type raises its own error for all others.
    has_own_words = (rule is not None and bare in ([int], [float], [str])) or (
        rule is None and name in _BY_MODEL and bare == [int]
    )
    has_own_words = has_own_words or rule in (unchecked, listed)

    def check(name: str, value: Any) -> None:
        if optional and value is None:
            return
        if not has_own_words and type(value) is not kind:
            check_kind(name, value, hint)
        if rule is not None and is_list and getattr(rule, "of_entries", False):
            for place, each in enumerate(value):
                rule(f"{name}[{place}]", each)
        elif rule is not None:
            rule(name, value)
        elif bare == [float] and not math.isfinite(value):
            raise InputError("An argument is not finite.", f"{name}: {value}", "Give a finite number.")

    return check


# --- kinds -------------------------------------------------------------------------------------------------


def check_kind(name: str, value: object, hint: Any) -> None:
    """Raise InputError unless a value matches a type annotation."""
    if get_origin(hint) is Literal:
        one_of(get_args(hint))(name, value)
    elif not is_of(value, hint):
        raise InputError(
            "An argument has the wrong type.", f"{name}: {shown(value)}", say("Expected: {}.", _text(hint))
        )


def is_of(value: Any, hint: Any) -> bool:
    """Return whether a value matches a type annotation, including the entries of a list or mapping.

    NumPy numbers count as numbers, but True does not. A string is not a list of strings. Entries of a list must be
    finite.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return True
    if len(options := _options(hint)) > 1:
        return any(is_of(value, each) for each in options)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in args)
    if hint is int:
        return is_whole(value)
    if hint is float:
        return is_whole(value) or (isinstance(value, Real) and not isinstance(value, bool))
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if hint in _LISTS or origin in _LISTS:
        return _is_list(value, hint, origin or hint, args)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(is_of(k, args[0]) and is_of(v, args[1]) for k, v in value.items())
    if origin is Callable or hint is Callable:
        return callable(value)
    kind = origin or hint
    return isinstance(value, kind) if isinstance(kind, type) else True


def _is_list(value: Any, hint: Any, kind: type, args: tuple) -> bool:
    """Return whether a value is a list of this type whose entries have the given types."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return False
    if isinstance(value, Mapping) and kind not in (Collection, Iterable):  # its keys are the entries
        return False
    if isinstance(value, np.ndarray):
        return kind in (Sequence, Collection, Iterable) and _has_numbers(value, args)
    if kind is tuple and len(args) > 1 and args[1] is not ...:
        return isinstance(value, tuple) and len(value) == len(args) and all(map(is_of, value, args))
    if not isinstance(value, kind if kind in (tuple, list, set, Iterable) else Collection):
        return False
    if not args or not isinstance(value, Collection):  # an iterator can be consumed only once
        return True
    if args[0] in (int, float):
        return all(map(is_whole if args[0] is int else is_number, value))
    return all(is_of(each, args[0]) for each in value)


def _has_numbers(value: np.ndarray, args: tuple) -> bool:
    """Return whether an array can stand for a list of such numbers, or for any list if no type is given."""
    if not args:
        return value.ndim > 0
    if args[0] not in (int, float):
        return get_origin(args[0]) in _LISTS and value.ndim == 2 and _has_numbers(value, get_args(args[0]))
    return (
        value.ndim == 1 and value.dtype.kind in ("iu" if args[0] is int else "iuf") and bool(np.isfinite(value).all())
    )


def _options(hint: Any) -> tuple:
    """Return the members of a union type, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _text(hint: Any) -> str:
    """Format an annotation in plain words."""
    if len(options := _options(hint)) > 1:
        return " | ".join(map(_text, options))
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is Callable:
        return "a function"
    if hint is type(None):
        return "None"
    name = getattr(get_origin(hint) or hint, "__name__", str(hint))
    inside = ", ".join("..." if each is ... else _text(each) for each in get_args(hint))
    return f"{name}[{inside}]" if inside else name


# --- rules: bounds of an argument --------------------------------------------------------------------------


def unchecked(name: str, value: object) -> None:
    """Accept any value; the function itself raises its own error for an invalid one."""


def listed(name: str, value: object) -> None:
    """Raise InputError unless a value is a list; the function itself raises its own error for an invalid entry."""
    if not is_of(value, Sequence) or isinstance(value, str):
        raise InputError("An argument has the wrong type.", f"{name}: {shown(value)}", say("Expected: {}.", "Sequence"))


def whole(low: int, high: int = MOST) -> Check:
    """Build the rule for an integer, or each entry of a list, from low to high."""
    return _of_entries(lambda name, value: check_whole(name, value, low, high))


def between(low: float, high: float) -> Check:
    """Build the rule for a number, or each entry of a list, from low to high."""
    return _of_entries(lambda name, value: check_number(name, value, low, high))


def _of_entries(check: Check) -> Check:
    """Mark a rule for a single value; for a list argument, it applies to each entry."""
    check.of_entries = True  # type: ignore[attr-defined]
    return check


def above(low: float, high: float = 1e15) -> Check:
    """Build the rule for a number above `low` and at most `high`, or an array or list of such numbers."""

    def check(name: str, value: Any) -> None:
        if isinstance(value, Iterable) and not isinstance(value, str):
            values = np.asarray(value)
            if values.dtype.kind not in "iuf" or not values.size or not ((values > low) & (values <= high)).all():
                raise InputError("A setting is out of range.", name, say("Choose a value greater than {}.", f"{low:g}"))
        elif not (is_number(value) and low < value <= high):
            got = f"{name}: {shown(value)}"
            raise InputError("A setting is out of range.", got, say("Choose a value greater than {}.", f"{low:g}"))

    return check


def one_of(names: Collection[str]) -> Check:
    """Build the rule for one of several names, or each entry of a list of them."""

    def check(name: str, value: object) -> None:
        if not (isinstance(value, str) and value in names):
            hint = say("Choose one of: {}.", ", ".join(names))
            raise InputError("An argument has an unknown value.", f"{name}: {shown(value)}", hint)

    return _of_entries(check)


def array(axes: str = "", *, finite: bool = True, empty: bool = False) -> Check:
    """Build the rule for an array with these axes ("N T": two; "": any number), all of them nonempty and all entries
    finite.

    `finite=False` allows any number, `empty=True` allows arrays without entries.
    """

    def check(name: str, value: Any) -> None:
        shape = tuple(value.shape)
        if (axes and len(shape) != len(axes.split())) or (0 in shape and not empty):
            expected = f"[{', '.join(axes.split()) or '...'}]"
            raise InputError("An array has the wrong shape.", f"{name}: {shape}", say("Expected: {}.", expected))
        if finite and not bool((value - value == 0).all() if str(value.dtype) not in ("bool", "torch.bool") else True):
            raise InputError("An array has entries that are not finite.", name, "Give finite numbers.")

    return check


def unit(name: str, value: object) -> None:
    """Raise InputError unless a random number is in [0, 1)."""
    if not (is_number(value) and 0 <= value < 1):
        got = f"{name}: {shown(value)}"
        raise InputError("The random number is out of range.", got, "Give a number from 0 up to below 1.")


def nonempty(name: str, value: Collection) -> None:
    """Raise InputError for an empty list, string or mapping."""
    if len(value) == 0:
        raise InputError("An argument is empty.", name, "Give at least one entry.")


def check_alike(**arrays: Any) -> None:
    """Raise InputError unless all arrays have the same shape, so that none is broadcast."""
    shapes = {name: tuple(value.shape) for name, value in arrays.items()}
    if len(set(shapes.values())) > 1:
        got = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError("The arguments have different shapes.", got, "Give arrays of the same shape.")
