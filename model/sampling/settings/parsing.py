"""Names and values from a pasted text: JSON, a command line, lines of a Modelfile or of YAML, or a call in Python.

Nothing of the text is executed. Values keep the types of their notation; those of lines and of a command are strings.
"""

import ast
import re
import shlex
from collections.abc import Mapping

from model.errors import InputError, say
from model.strict_json import parse

MOST_TEXT = 20_000  # maximum number of characters of a pasted text
MOST_NAMES = 400  # maximum number of names in it
_MOST_CODE = 5000  # maximum number of characters of a call in Python
_CONTINUED = re.compile(r"[\\^`][ \t]*\r?\n")  # the ends of lines that a shell continues
_LINE = re.compile(r"([A-Za-z_][\w.-]*)\s*[:=]\s*(.*)")
_NEGATIVE = re.compile(r"-(\d|\.\d|inf)")

Given = dict[str, object]


def limited(text: str) -> str:
    """Return the text without white space around it. Raises InputError if it is empty or too long."""
    if not text.strip():
        raise InputError("There are no settings in this text.", "", "Paste the settings of a tool.")
    if len(text) > MOST_TEXT:
        raise InputError("The settings are too long.", f"{len(text)}", say("At most {} characters.", MOST_TEXT))
    return text.strip()


def json_object(text: str) -> Given | None:
    """Parse a JSON object; None for a text that does not begin like one.

    Raises InputError for invalid JSON, NaN, nesting that is too deep, or too many names.
    """
    if not text.startswith("{"):
        return None
    try:
        value = parse(text)
    except ValueError as error:
        reason = str(error).split(": line")[0][:80]
        raise InputError("This JSON cannot be read.", reason, "Paste the whole object with its braces.") from None
    if not isinstance(value, dict) or len(value) > MOST_NAMES:
        raise InputError("There are too many settings.", "", say("At most {} names.", MOST_NAMES))
    return value


def lines(text: str) -> Given:
    """Parse lines `name: value` or `name = value`, as in flat YAML; a comment begins with "#".

    Indented lines and items "- …" below a name without a value are its list. Any other line is named as it stands, with
    the value None.
    """
    given: Given = {}
    block: list[str] | None = None
    for line in _kept_lines(text):
        item = line.strip().removeprefix("- ").strip()
        if block is not None and (line[0].isspace() or line.startswith("- ")):
            block.append(_unquoted(item))
        elif found := _LINE.fullmatch(line.strip().removesuffix(",")):
            block = [] if found[2] in ("", "|", "|-", ">", ">-") else None
            given[found[1]] = _unquoted(found[2]) if block is None else block
        else:
            given[line.strip()[:60]] = block = None
    return {name: value for name, value in given.items() if value != []}


def modelfile(text: str) -> list[tuple[str, str, str]]:
    """Parse a Modelfile into (instruction in capitals, name of a parameter, value).

    Texts in triple quotes are left out, and the "/set" with which a parameter is set in a chat.
    """
    found = []
    for line in _kept_lines(re.sub(r'"""(?:.|\n)*?(?:"""|$)', '""', text)):
        word, _, rest = line.strip().removeprefix("/set ").partition(" ")
        name, _, value = rest.strip().partition(" ")
        found.append((word.upper(), name, _unquoted(value)))
    return found


def _kept_lines(text: str) -> list[str]:
    kept = [line.rstrip() for line in text.splitlines()]
    kept = [line for line in kept if line and not line.lstrip().startswith("#")]
    if len(kept) > MOST_NAMES:
        raise InputError("There are too many settings.", str(len(kept)), say("At most {} names.", MOST_NAMES))
    return kept


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def command(text: str) -> list[tuple[str, str | None]]:
    """Split a command line into (option, value): a value is the word after an option unless that is an option, too.

    Words that belong to no option, such as the program, are left out. Raises InputError for an open quotation mark.
    """
    try:
        words = shlex.split(_CONTINUED.sub(" ", text))
    except ValueError:
        hint = "Close every quotation mark."
        raise InputError("This command cannot be split into words.", text[:40], hint) from None
    options: list[tuple[str, str | None]] = []
    for word in words:
        if word.startswith("-") and len(word) > 1 and not _NEGATIVE.match(word):
            name, equals, value = word.partition("=")
            options.append((name, value if equals else None))
        elif options and options[-1][1] is None:
            options[-1] = (options[-1][0], word)
    return options


def python_call(text: str) -> tuple[str, Given] | None:
    """Parse the first call with keywords in a Python text into (the name called, {keyword: value}).

    Only literals have a value; any other is None. None for a text without such a call. A bare list of keywords, as in
    `temperature=0.7, top_p=0.9`, is a call without a name.
    """
    if len(text) > _MOST_CODE:
        return None
    for source in (text, f"_({text})"):
        try:
            tree = ast.parse(source)
            calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and each.keywords]
            if calls:
                return _name(calls[0].func), {each.arg: _literal(each.value) for each in calls[0].keywords if each.arg}
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _literal(value: ast.expr) -> object:
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def merged(given: Mapping[str, object], *inside: str) -> Given:
    """Put the names of the nested objects `inside` beside those around them, which they replace."""
    result = {name: value for name, value in given.items() if name not in inside}
    for name in inside:
        nested = given.get(name)
        if isinstance(nested, Mapping):
            result |= nested
    return result
