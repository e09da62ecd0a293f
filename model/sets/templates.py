"""Prompt sets as text: templates with slots, or lines of CSV or JSON; and the built-in sets.

A slot is a name in braces, such as {name} or {name2}: it stands for one entry of the list of that name, and slots of
one list with different numbers stand for different entries.
"""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from model.errors import InputError, say

COLUMNS = ("clean", "corrupt", "target", "distractor")
MOST_PAIRS = 256
_SLOT = re.compile(r"\{([a-z]+)(\d*)\}")
_FIELD = re.compile(r"([a-z]+)[ \t]*:[ \t]?(.*)")
_TRIES = 50  # draws per pair before a set counts as exhausted


@dataclass(frozen=True)
class Pair:
    """Two prompts that differ in what decides the answer: `target` answers the clean one, `distractor` the other."""

    clean: str
    corrupt: str
    target: str
    distractor: str


@dataclass(frozen=True)
class Template:
    """A pair whose texts have slots."""

    pair: Pair
    lists: Mapping[str, tuple[str, ...]]  # entries of each slot's list


_NAMES = (
    "Tom", "Lily", "Sam", "Mia", "Ben", "Anna", "Max", "Sue", "Tim", "Jane", "Jack", "Lucy", "Bob", "Amy", "Sara",
    "Mary", "John", "Leo", "Rose", "Peter", "Emma", "Billy", "Molly", "Jim",
)  # fmt: skip
_GIRLS = ("Lily", "Mia", "Anna", "Sue", "Jane", "Lucy", "Amy", "Sara", "Mary", "Rose", "Emma", "Molly")
_BOYS = ("Tom", "Sam", "Ben", "Max", "Tim", "Jack", "Bob", "John", "Leo", "Peter", "Billy", "Jim")
_THINGS = ("ball", "book", "kite", "hat", "car", "doll", "cake", "cup")
_PLACES = ("park", "garden", "store", "beach", "school", "house")
_NOUNS = ("dog", "cat", "bird", "boy", "girl", "king", "bear", "friend")


def _both(first: Pair, second: Pair, **lists: tuple[str, ...]) -> tuple[Template, ...]:
    """Build the two templates of a set whose clean sides take turns."""
    return Template(first, lists), Template(second, lists)


def _turned(pair: Pair) -> Pair:
    """Exchange the two sides of a pair."""
    return Pair(pair.corrupt, pair.clean, pair.distractor, pair.target)


_SAD = "One day, {{{}}} lost a {{thing}} and was sad, because"
_GENDER = Pair(_SAD.format("girl"), _SAD.format("boy"), " she", " he")
_AGREEMENT = Pair("The {noun}s in the {place}", "The {noun} in the {place}", " were", " was")

# Indirect object: Wang et al. 2022. Greater than: Hanna et al. 2023.
BUILT_IN: Mapping[str, tuple[Template, ...]] = {
    "again": (
        Template(
            Pair(
                "One day, {name1} saw a {thing1}. {name2} saw a bird. {name1} saw a",
                "One day, {name1} saw a {thing2}. {name2} saw a bird. {name1} saw a",
                " {thing1}",
                " {thing2}",
            ),
            {"name": _NAMES, "thing": _THINGS},
        ),
    ),
    "other": (
        Template(
            Pair(
                "One day, {name1} and {name2} went to the {place}. {name2} gave the {thing} to",
                "One day, {name1} and {name2} went to the {place}. {name1} gave the {thing} to",
                " {name1}",
                " {name2}",
            ),
            {"name": _NAMES, "place": _PLACES, "thing": _THINGS},
        ),
    ),
    "gender": _both(_GENDER, _turned(_GENDER), girl=_GIRLS, boy=_BOYS, thing=_THINGS),
    "agreement": _both(_AGREEMENT, _turned(_AGREEMENT), noun=_NOUNS, place=_PLACES),
    "indirect": (
        Template(
            Pair(
                "When {name1} and {name2} went to the {place}, {name2} gave a {thing} to",
                "When {name1} and {name2} went to the {place}, {name1} gave a {thing} to",
                " {name1}",
                " {name2}",
            ),
            {"name": _NAMES, "place": _PLACES, "thing": _THINGS},
        ),
    ),
    "greater": (
        Template(
            Pair(
                "The {event} lasted from the year 17{mid}{unit} to the year 17",
                "The {event} lasted from the year 171{unit} to the year 17",
                "{high}",
                "{low}",
            ),
            {
                "event": ("war", "siege", "trial", "strike", "drought", "journey"),
                "mid": ("4", "5", "6"),
                "unit": tuple("123456789"),
                "high": ("7", "8", "9"),
                "low": ("2", "3"),
            },
        ),
    ),
}


def draw(templates: Sequence[Template], n: int, seed: int = 0, taken: Sequence[Pair] = ()) -> tuple[Pair, ...]:
    """Fill the slots of templates, in turn, with random entries: up to n different pairs, none of `taken`.

    Fewer pairs are returned if the lists have no more. The same arguments give the same pairs.
    """
    rng, found = np.random.default_rng(seed), dict.fromkeys(taken)
    made: list[Pair] = []
    for _ in range(_TRIES * n):
        if len(made) == n:
            break
        pair = _filled(templates[len(made) % len(templates)], rng)
        if pair not in found:
            found[pair] = None
            made.append(pair)
    return tuple(made)


def _filled(template: Template, rng: np.random.Generator) -> Pair:
    """Fill the slots of one template."""
    slots = sorted({slot for text in _texts(template.pair) for slot in _SLOT.findall(text)})
    chosen: dict[tuple[str, str], str] = {}
    for name, entries in template.lists.items():
        mine = [slot for slot in slots if slot[0] == name]
        picked = rng.permutation(len(entries))[: len(mine)]
        chosen |= {slot: entries[at] for slot, at in zip(mine, picked, strict=True)}
    return Pair(*(_SLOT.sub(lambda found: chosen[found[1], found[2]], text) for text in _texts(template.pair)))


def _texts(pair: Pair) -> tuple[str, ...]:
    return pair.clean, pair.corrupt, pair.target, pair.distractor


# --- own sets ---


def is_lines(text: str) -> bool:
    """Return whether a text is lines of CSV or JSON, not templates."""
    first = text.lstrip("\ufeff \t\r\n")
    return first.startswith("{") or _FIELD.match(first) is None


def parse_lines(text: str) -> tuple[Pair, ...]:
    """Read pairs from JSON lines, or from CSV whose first line names the columns of COLUMNS in any order.

    Raises InputError for a line that cannot be read, with its number, and for more than MOST_PAIRS.
    """
    text = text.lstrip("\ufeff")
    rows = _json_rows(text) if text.lstrip().startswith("{") else _csv_rows(text)
    if len(rows) > MOST_PAIRS:
        raise InputError("The set has too many pairs.", str(len(rows)), say("Give at most {} pairs.", MOST_PAIRS))
    for number, row in rows:
        for name in COLUMNS:
            if not isinstance(row.get(name), str) or not row[name]:
                hint = say("Each line needs the texts {}.", ", ".join(COLUMNS))
                raise InputError("A pair of the set is incomplete.", f"line {number}: {name}", hint)
    return tuple(Pair(*(row[name] for name in COLUMNS)) for _, row in rows)


def _json_rows(text: str) -> list[tuple[int, dict]]:
    """Read JSON lines as (line number, object)."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise InputError("A line of the set is not a JSON object.", f"line {number}", "Write one object per line.")
        rows.append((number, row))
    return rows


def _csv_rows(text: str) -> list[tuple[int, dict]]:
    """Read CSV with a header as (line number, row)."""
    reader = csv.DictReader(io.StringIO(text.lstrip("\r\n")))
    try:
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            hint = say("The first line names the columns {}; or write templates, “clean: …”.", ", ".join(COLUMNS))
            raise InputError("The set lacks a column.", ", ".join(missing), hint)
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise InputError("The lines are not CSV.", str(error), "Put texts with commas between quotes.") from None


def parse_templates(text: str) -> tuple[Template, ...]:
    """Read templates: lines "clean: ...", "corrupt: ...", "target: ...", "distractor: ..." per template, and lines
    "name: Tom, Lily, Sam" for the lists, which all templates share.

    Raises InputError for a line of another form, a missing text, and a slot whose list is missing or too short.
    """
    pairs: list[dict[str, str]] = []
    lists: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _FIELD.fullmatch(line.strip())
        if found is None:
            hint = "Write “clean: …”, “corrupt: …”, “target: …”, “distractor: …”, and a line for each list of slots."
            raise InputError("A line of the template has no name.", f"line {number}", hint)
        name, value = found[1], found[2]
        if name not in COLUMNS:
            lists[name] = tuple(dict.fromkeys(entry.strip() for entry in value.split(",") if entry.strip()))
        elif name == "clean" or not pairs:
            pairs.append({name: value})
        else:
            pairs[-1][name] = value
    templates = tuple(Template(_pair(each), lists) for each in pairs)
    for template in templates:
        _check_slots(template)
    if not templates:
        raise InputError("The set has no template.", "", "Write “clean: …” and the other lines.")
    return templates


def _pair(given: Mapping[str, str]) -> Pair:
    """Build a template's pair. Raises InputError for a missing text."""
    for name in COLUMNS:
        if not given.get(name):
            raise InputError("The template lacks a line.", name, say("Each template needs {}.", ", ".join(COLUMNS)))
    return Pair(*(given[name] for name in COLUMNS))


def _check_slots(template: Template) -> None:
    """Raise InputError unless the list of each slot has enough entries."""
    slots = {slot for text in _texts(template.pair) for slot in _SLOT.findall(text)}
    for name in {name for name, _ in slots}:
        needed, entries = sum(slot[0] == name for slot in slots), len(template.lists.get(name, ()))
        if entries < needed:
            hint = say("Write a line “{}: …” with at least {} entries, separated by commas.", name, needed)
            raise InputError("A slot has too few entries.", f"{{{name}}}: {entries}", hint)
