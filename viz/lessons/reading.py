"""Parser of lesson files: `<key>.<language>.toml`, complete, or with `translates` only the words of another language.

docs/lessons.md describes the format. Every error becomes a fault; a lesson without faults can be shown.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from viz.api.registry import arguments
from viz.lessons.deeds import read_done, read_selectors, read_state
from viz.lessons.faults import Fault, Table
from viz.lessons.lesson import (
    KINDS,
    LEVELS,
    PARTS,
    SHOWN,
    Lesson,
    LessonQuestion,
    LessonRun,
    LessonStep,
    Value,
    ValueBand,
)
from viz.lessons.operations import OF_NAMES, OF_TAKEN, OF_TWO, OF_VALUES
from viz.lessons.runs import FORMS
from viz.lessons.text import names_in
from viz.lessons.values import ENDPOINT, PAGE
from viz.words import LANGUAGES

BUNDLED = Path(__file__).parent / "bundled"
_FILE = re.compile(r"([a-z][a-z0-9_]{1,39})\.([a-z]{2,3}(?:-[a-z0-9]+)*)\.toml")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
Languages = Mapping[str, Lesson]


def read_folder(folder: Path) -> tuple[dict[str, dict[str, Lesson]], list[Fault]]:
    """Parse the lessons of a folder by key and language; return them and all faults in their files."""
    faults: list[Fault] = []
    raw: dict[str, dict[str, dict]] = {}
    for path in sorted(folder.glob("*.toml")):
        named = _FILE.fullmatch(path.name)
        if not named or named[2] not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            faults.append(Fault(path.name, "", f"Name it KEY.LANGUAGE.toml, the language one of: {known}."))
        elif (table := _parsed(path, faults)) is not None:
            raw.setdefault(named[1], {})[named[2]] = table
    lessons = {key: read_languages(key, tables, faults) for key, tables in raw.items()}
    _needed(lessons, faults)
    return lessons, faults


def _parsed(path: Path, faults: list[Fault]) -> dict | None:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:  # invalid UTF-8, invalid TOML, or a disk error
        faults.append(Fault(path.name, "", f"This cannot be read as TOML: {error}."))
        return None


def _needed(lessons: Mapping[str, Languages], faults: list[Fault]) -> None:
    """Record a fault for each prerequisite that is neither in the folder nor among the project's own lessons."""
    known = set(lessons) | {path.name.split(".")[0] for path in BUNDLED.glob("*.toml")}
    for key, by_language in lessons.items():
        for lesson in by_language.values():
            for each in lesson.needs:
                if each not in known or each == key:
                    faults.append(Fault(f"{key}.{lesson.language}.toml", "needs", f"There is no lesson “{each}”."))


def read_languages(key: str, tables: Mapping[str, dict], faults: list[Fault]) -> dict[str, Lesson]:
    """Parse one lesson in all its languages."""
    lessons = {}
    for language, raw in tables.items():
        file = f"{key}.{language}.toml"
        if "translates" in raw:
            first = raw["translates"]
            if first not in tables or "translates" in tables.get(first, {}):
                faults.append(Fault(file, "translates", f"There is no whole lesson {key}.{first}.toml beside it."))
                continue
            raw = translated(tables[first], {name: raw[name] for name in raw if name != "translates"}, file, faults)
        lessons[language] = read_lesson(key, language, raw, faults)
    return lessons


# --- translations --------------------------------------------------------------------------------------


def words_of(raw: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """Collect all words of a complete lesson, by location."""
    texts_at: dict[tuple[str, ...], Any] = {(name,): raw[name] for name in ("title", "opens", "goals") if name in raw}
    for name, question in _tables(raw.get("review")).items():
        texts_at |= _question_words(question, ("review", name))
    steps = raw.get("step", {})
    for key, step in _tables(steps).items():
        texts_at |= {("step", key, name): step[name] for name in ("see", "why", "hints") if name in step}
        for part in ("ask", "do", "check"):
            if isinstance(table := step.get(part), Mapping):
                texts_at |= _question_words(table, ("step", key, part))
    return texts_at


def _tables(raw: Any) -> dict[str, Mapping]:
    """Return the entries of a table that are tables themselves."""
    return {key: each for key, each in (raw if isinstance(raw, Mapping) else {}).items() if isinstance(each, Mapping)}


def _question_words(table: Mapping[str, Any], place: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    """Collect the words of one question, or of an action, by location."""
    texts_at = {(*place, name): table[name] for name in ("text", "hints") if name in table}
    for of in ("choices", "wrong"):
        texts_at |= {(*place, of, name): text for name, text in dict(table.get(of, {})).items()}
    return texts_at


def _flat(raw: Mapping[str, Any], above: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    flat: dict[tuple[str, ...], Any] = {}
    for name, value in raw.items():
        flat |= _flat(value, (*above, name)) if isinstance(value, Mapping) else {(*above, name): value}
    return flat


def translated(original: Mapping[str, Any], words: Mapping[str, Any], file: str, faults: list[Fault]) -> dict:
    """Fill a complete lesson with the words of another language; missing and extra words are faults."""
    expected, own = words_of(original), _flat(words)
    faults += [Fault(file, ".".join(place), "This is not translated.") for place in expected if place not in own]
    faults += [
        Fault(file, ".".join(place), "A translation has only the words of its lesson.")
        for place in own
        if place not in expected
    ]
    return _filled(original, {place: own[place] for place in expected if place in own})


def _filled(raw: Any, words: Mapping[tuple[str, ...], Any], above: tuple[str, ...] = ()) -> Any:
    if above in words:
        return words[above]
    return {name: _filled(each, words, (*above, name)) for name, each in raw.items()} if isinstance(raw, dict) else raw


# --- complete lessons ----------------------------------------------------------------------------------


def read_lesson(key: str, language: str, raw: Mapping[str, Any], faults: list[Fault]) -> Lesson:
    """Parse a complete lesson."""
    top = Table(f"{key}.{language}.toml", "", raw, faults)
    runs = _runs(top)
    values = _values(top, runs)
    steps = top.table("step")
    level = top.take("level", int, 1)
    if level not in LEVELS:
        top.fault("level", "Give 1, 2 or 3.")
    read_steps = [_step(steps, name, values, runs, level) for name in steps.raw] if steps else []
    if steps is not None and not read_steps:
        top.fault("step", "A lesson has at least one step: [step.NAME].")
    minutes = top.take("minutes", int)
    if "minutes" in raw and not 1 <= minutes <= 90:
        top.fault("minutes", "Give 1 to 90.")
    state = top.table("state")
    goals = top.texts("goals")
    if "goals" in raw and not 1 <= len(goals) <= 4:
        top.fault("goals", "Give one to four.")
    lesson = Lesson(
        key,
        language,
        top.take("title", str),
        goals,
        minutes,
        top.one_of("part", PARTS, "own"),
        top.take("order", int, 0),
        top.texts("needs", default=[]),
        top.take("model", str, "tinygpt"),
        read_state(state) if state else {},
        values,
        tuple(read_steps),
        _band(top, values),
        runs,
        top.take("opens", str, ""),
        level,
        _reviews(top, values),
    )
    top.end()
    return lesson


def _band(top: Table, values: Mapping[str, Value]) -> ValueBand:
    table = top.table("band")
    if table is None:
        return ValueBand("", 0, 0)
    band = ValueBand(_value(table, "of", values), table.take("low", float), table.take("high", float))
    if "low" in table.raw and "high" in table.raw and not band.low < band.high:
        table.fault("low", "This must be less than high.")
    table.end()
    return band


def _reviews(top: Table, values: Mapping[str, Value]) -> dict[str, LessonQuestion]:
    """Parse the questions that come back in later lessons."""
    table = top.table("review", optional=True)
    questions = {}
    for name in table.raw if table else ():
        if not _NAME.fullmatch(name):
            table.fault(name, "Names are small letters, digits and _.")
        elif (question := _question(table, name, values, "review")) is not None:
            questions[name] = question
            used = [question.answer, *names_in(question.text), *(each for each in question.wrong if each in values)]
            if any(_of_page(each, values) for each in used):
                table.fault(
                    name, "A later lesson shows another page: a review cannot use its training runs or selection."
                )
            _unnamed(table, [(f"{name}.text", question.text), *_wrong_texts(name, question)], values)
    return questions


def _of_page(name: str, values: Mapping[str, Value]) -> bool:
    """Return whether a value depends on the visitor's page: on its training runs, prompt or selection."""
    value = values.get(name)
    if value is None:
        return False
    reads = any(isinstance(each, Mapping) and set(each) & {"page", "run"} for each in value.arguments.values())
    return reads or any(_of_page(each, values) for each in value.of)


def _value(table: Table, name: str, values: Mapping[str, Value]) -> str:
    """Read the name of a value; an undeclared name is a fault."""
    value = table.take(name, str)
    if value and value not in values:
        table.fault(name, f"There is no value “{value}”: declare it as [value.{value}].")
    return value


def _runs(top: Table) -> dict[str, LessonRun]:
    """Parse the training runs of a lesson by name."""
    table = top.table("run", optional=True)
    by_name = {}
    for name in table.raw if table else ():
        each = table.table(name)
        if not _NAME.fullmatch(name):
            table.fault(name, "Names are small letters, digits and _.")
        elif each is not None:
            by_name[name] = LessonRun(name, each.one_of("form", tuple(FORMS)), each.take("values", dict, {}))
            each.end()
    return by_name


def _values(top: Table, runs: Mapping[str, LessonRun]) -> dict[str, Value]:
    table = top.table("value")
    by_name: dict[str, Value] = {}
    for name in table.raw if table else ():
        each = table.table(name)
        if not _NAME.fullmatch(name):
            table.fault(name, "Names are small letters, digits and _.")
        if each is not None:
            by_name[name] = _one_value(each, name, by_name, runs)
            each.end()
    return by_name


def _one_value(table: Table, name: str, before: Mapping[str, Value], runs: Mapping[str, LessonRun]) -> Value:
    show = table.one_of("show", SHOWN, "number")
    if "of" in table.raw:
        of = table.texts("of")
        make = table.one_of("make", tuple(OF_VALUES))
        for each in of:
            if each not in before:
                table.fault("of", f"“{each}” does not stand before this value.")
        if (make in OF_TWO and len(of) != 2) or (make in OF_NAMES and len(of) < 2):
            table.fault("of", f"“{make}” takes {'two values' if make in OF_TWO else 'two values or more'}.")
        return Value(name, make=make, of=of, show=show)
    call = table.one_of("call", tuple(ENDPOINT))
    sent_with = table.take("with", dict, {})
    if call in ENDPOINT:
        known = [each.name for each in arguments(ENDPOINT[call])]
        for each, sent in sent_with.items():
            if each not in known:
                table.fault(f"with.{each}", f"The endpoint {call} has no such argument. It has: {', '.join(known)}.")
            if isinstance(sent, Mapping) and "page" in sent and (len(sent) > 1 or sent["page"] not in PAGE):
                table.fault(f"with.{each}", f"Of the page can be read: {', '.join(PAGE)}.")
            if isinstance(sent, Mapping) and "run" in sent and (len(sent) > 1 or sent["run"] not in runs):
                table.fault(f"with.{each}", f"There is no run “{sent['run']}”: declare it as [run.{sent['run']}].")
    path = tuple(table.take("take", list))
    return Value(name, call, sent_with, path, table.one_of("make", tuple(OF_TAKEN), ""), show=show)


def _step(
    steps: Table, name: str, values: Mapping[str, Value], runs: Mapping[str, LessonRun], level: int
) -> LessonStep:
    table = steps.table(name)
    if table is None or not table.raw:
        return LessonStep(name, "", {}, "", "", ())
    do, state, show = table.table("do"), table.table("state", optional=True), table.table("show", optional=True)
    step = LessonStep(
        name,
        do.take("text", str) if do else "",
        read_done(do) if do else {},
        table.take("see", str),
        table.take("why", str),
        table.texts("hints", 3),
        _question(table, "ask", values),
        _question(table, "check", values),
        read_selectors(table, "at"),
        None if state is None else read_state(state),
        {} if show is None else read_state(show, presses=True),
        table.one_of("run", tuple(runs), "") if "run" in table.raw else "",
    )
    if do:
        do.end()
    if not step.ask and not step.check:
        table.fault("check", "A step asks something: give it ask, check, or both.")
    if step.check and step.check.hidden and level < max(LEVELS):
        table.fault("check.hidden", f"Only a lesson of level {max(LEVELS)} hides a check.")
    _named(table, step, values)
    table.end()
    return step


def _named(table: Table, step: LessonStep, values: Mapping[str, Value]) -> None:
    """Record a fault for every value in a sentence that the lesson does not declare."""
    texts = [("see", step.see), ("why", step.why), ("do.text", step.do), *(("hints", text) for text in step.hints)]
    for part in ("ask", "check"):
        if question := getattr(step, part):
            texts += [(f"{part}.text", question.text), *_wrong_texts(part, question)]
            texts += [(f"{part}.hints", text) for text in question.hints]
    _unnamed(table, texts, values)


def _wrong_texts(where: str, question: LessonQuestion) -> list[tuple[str, str]]:
    return [(f"{where}.wrong.{name}", text) for name, text in question.wrong.items()]


def _unnamed(table: Table, texts: list[tuple[str, str]], values: Mapping[str, Value]) -> None:
    for where, text in texts:
        for name in names_in(text):
            if name not in values:
                table.fault(where, f"There is no value “{name}”: declare it as [value.{name}].")


def _question(step: Table, name: str, values: Mapping[str, Value], role: str = "") -> LessonQuestion | None:
    """Parse a question; its role is "ask", "check" or "review", by default its name."""
    role = role or name
    table = step.table(name, optional=True)
    if table is None:
        return None
    kind = table.one_of("kind", KINDS)
    choices, wrong = table.take("choices", dict, {}), table.take("wrong", dict, {})
    answer = _value(table, "answer", values)
    tolerance = table.take("tolerance", float, 0.0)
    is_whole = values[answer].show == "whole" if answer in values else True
    if kind == "number" and role != "ask" and not tolerance and not is_whole:
        table.fault("tolerance", "Say how far off a number may be, in the unit that it is shown in.")
    if tolerance < 0:
        table.fault("tolerance", "This must be 0 or more.")
    if kind == "choice" and len(choices) < 2:
        table.fault("choices", "Give two choices or more: name = text.")
    if kind != "choice" and choices:
        table.fault("choices", "Only a question of the kind “choice” has choices.")
    for where, texts in (("choices", choices), ("wrong", wrong)):
        for each, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                table.fault(f"{where}.{each}", "This must be a text.")
    for each in wrong:
        if each not in (choices if kind == "choice" else values):
            known = "choice" if kind == "choice" else "value"
            table.fault(f"wrong.{each}", f"There is no {known} of this name.")
    choices, wrong = ({key: text for key, text in of.items() if isinstance(text, str)} for of in (choices, wrong))
    is_check = role == "check"
    question = LessonQuestion(
        table.take("text", str),
        kind or "number",
        answer,
        float(tolerance),
        choices,
        wrong,
        read_selectors(table, "at") if is_check else (),
        table.texts("hints", default=[]) if is_check else (),
        table.flag("hidden") if is_check else False,
    )
    table.end()
    return question
