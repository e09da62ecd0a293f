"""Faults in the file of a lesson: a location and a sentence."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

_KINDS = {str: "a text", int: "a whole number", float: "a number", list: "a list", dict: "a table"}


@dataclass(frozen=True)
class Fault:
    """A fault at one location."""

    file: str
    where: str  # the dotted key, such as step.count.check.answer
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.where}: {self.what}" if self.where else f"{self.file}: {self.what}"


@dataclass
class Table:
    """A TOML table being read: missing, unknown or mistyped keys become faults."""

    file: str
    where: str
    raw: Mapping[str, Any]
    faults: list[Fault]
    read: set[str] = field(default_factory=set)

    def fault(self, name: str, what: str) -> None:
        """Record a fault at a key of this table."""
        where = ".".join(part for part in (self.where, name) if part)
        self.faults.append(Fault(self.file, where, what))

    def take(self, name: str, kind: type, default: Any = None) -> Any:
        """Read the value of a key, or `default` if it is missing; a missing key without a default or a wrong type is a
        fault.
        """
        self.read.add(name)
        if name not in self.raw:
            if default is None:
                self.fault(name, f"This is missing: give {_KINDS[kind]}.")
                return kind()
            return default
        value = self.raw[name]
        fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not fits or isinstance(value, bool):
            self.fault(name, f"This must be {_KINDS[kind]}.")
            return kind() if default is None else default
        if kind is str and not value.strip():
            self.fault(name, "This is empty.")
        return value

    def flag(self, name: str) -> bool:
        """Read an optional true or false; False if it is missing."""
        self.read.add(name)
        value = self.raw.get(name, False)
        if not isinstance(value, bool):
            self.fault(name, "This must be true or false.")
        return value is True

    def texts(self, name: str, count: int | None = None, default: Any = None) -> tuple[str, ...]:
        """Read a list of strings, of exactly `count` if that is given."""
        entries = self.take(name, list, default)
        if any(not isinstance(each, str) or not each.strip() for each in entries):
            self.fault(name, "Every entry must be a text that says something.")
            return ()
        if count is not None and name in self.raw and len(entries) != count:
            self.fault(name, f"Give {count} of them; there are {len(entries)}.")
        return tuple(entries)

    def table(self, name: str, optional: bool = False) -> "Table | None":
        """Read a nested table, or None if it is missing."""
        if optional and name not in self.raw:
            self.read.add(name)
            return None
        raw = self.take(name, dict)
        return Table(self.file, ".".join(part for part in (self.where, name) if part), raw, self.faults)

    def one_of(self, name: str, names: Collection[str], default: str | None = None) -> str:
        """Read a string that is one of the given names."""
        value = self.take(name, str, default)
        if value and value not in names and value != default:
            self.fault(name, f"There is no “{value}” here. Choose one of: {', '.join(names)}.")
        return value

    def end(self) -> None:
        """Record a fault for every key that was not read."""
        for name in self.raw:
            if name not in self.read:
                self.fault(name, f"There is no such key here. Known ones: {', '.join(sorted(self.read))}.")
