"""Operations of lessons on the model's numbers: a fixed set of names, without formulas or code."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from model.errors import InputError

# Operations on a list of numbers, which may be nested; null entries are skipped.
OF_A_LIST: Mapping[str, Callable[[Sequence], Any]] = {
    "count": len,
    "sum": math.fsum,
    "mean": statistics.fmean,
    "median": statistics.median,
    "largest": max,
    "smallest": min,
    "at_largest": lambda numbers: max(range(len(numbers)), key=numbers.__getitem__),
    "over_half": lambda numbers: sum(each > 0.5 for each in numbers),
    "at_smallest": lambda numbers: min(range(len(numbers)), key=numbers.__getitem__),
}
# Operations on one number.
OF_ONE: Mapping[str, Callable[[float], Any]] = {
    "exp": math.exp,
    "bits": lambda nats: nats / math.log(2),
    "size": abs,
    "rest": lambda share: 1 - share,
}
# Operations on two earlier values.
OF_TWO: Mapping[str, Callable[[float, float], Any]] = {
    "difference": lambda a, b: a - b,
    "ratio": lambda a, b: a / b,
    "product": lambda a, b: a * b,
    "compare": lambda a, b: "more" if a > b else "less" if a < b else "same",
}
# Operations on several earlier values that return the name of one.
OF_NAMES: Mapping[str, Callable[[Mapping[str, float]], str]] = {
    "which_largest": lambda values: max(values, key=values.__getitem__),
    "which_smallest": lambda values: min(values, key=values.__getitem__),
}
OF_VALUES = {**OF_TWO, **OF_NAMES}
OF_TAKEN = {**OF_A_LIST, **OF_ONE}
EVERY = "*"


def taken(answer: Any, path: Sequence) -> Any:
    """Follow a path into an endpoint's answer and return the value at its end.

    Each step of the path is of one of these types: a string selects a field, a number selects an entry of a list
    (negative from the end), a table selects the first record with these values, a list of strings selects several
    fields of a record, and "*" applies the rest of the path to every entry. Raises InputError if the path does not
    exist.
    """
    for n, step in enumerate(path):
        if step == EVERY:
            return [taken(each, path[n + 1 :]) for each in answer]
        try:
            if isinstance(step, Mapping):
                answer = next(row for row in answer if all(row[name] == value for name, value in step.items()))
            elif isinstance(step, list | tuple):
                answer = [answer[name] for name in step]
            else:
                answer = answer[step]
        except (KeyError, IndexError, TypeError, StopIteration) as error:
            got = ".".join(map(str, path[: n + 1]))
            raise InputError("The answer does not have a lesson's number.", got, "Correct its take.") from error
    return answer


def flat(value: Any) -> list:
    """Return the numbers in nested lists, in order."""
    if isinstance(value, list):
        return [each for part in value for each in flat(part)]
    return [] if value is None else [value]


def apply(operation: str, value: Any) -> Any:
    """Apply an operation to a value from an answer. Raises InputError if it is not applicable."""
    if not operation:
        return value
    try:
        return OF_TAKEN[operation](flat(value) if operation in OF_A_LIST else value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError("A lesson's operation does not fit its value.", operation, "Correct its make.") from error


def derived(operation: str, values: Mapping[str, Any]) -> Any:
    """Apply an operation to named values. Raises InputError if it is not applicable."""
    try:
        if operation in OF_NAMES:
            return OF_NAMES[operation](values)
        return OF_TWO[operation](*values.values())
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise InputError("A lesson's operation does not fit its value.", operation, "Correct its make.") from error
