"""A rule as llguidance reads it, and its mistakes in the user's own lines.

The option `no_forcing` makes a mask exact: without it, llguidance allows only its own choice of tokens for text that
is forced.
"""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

from model.errors import InputError, say
from model.sampling.rules.rule import Rule, choices_of, schema_of

_TRIAL = Path(__file__).with_name("trial.py")
PATIENCE = 20.0  # seconds to wait for a process limited to a few CPU seconds, on a busy machine
OPTIONS = '%llguidance {"no_forcing": true}\n'
# JSON as Python's json.dumps writes it, so that a model cannot write spaces without end
_SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_TRIED = ("json", "gbnf", "lark")  # kinds whose compilation can take more than a linear time
_HINTS = {
    "choice": say("Write one text per line."),
    "regex": say("Look-around and back-references are not available."),
    "json": say("Use the keywords of JSON Schema that llguidance knows."),
    "gbnf": say('Begin with a rule named root, as in: root ::= "yes" | "no"'),
    "lark": say('Begin with a rule named start, as in: start: "yes" | "no"'),
}


def source_of(rule: Rule) -> str:
    """Return the grammar of a rule in llguidance's dialect of Lark. Raises InputError for a mistake that is found
    before compilation.
    """
    if rule.kind == "choice":
        quoted = [json.dumps(each, ensure_ascii=False) for each in choices_of(rule.text)]
        return f"{OPTIONS}start: CHOICE\nCHOICE: {' | '.join(quoted)}\n"
    if rule.kind == "regex":
        return f"{OPTIONS}start: /{_escaped(rule.text)}/\n"
    if rule.kind == "json":
        schema = schema_of(rule.text)
        return f"{OPTIONS}start: %json {json.dumps(schema | {'x-guidance': _SPACING})}\n"
    if rule.kind == "gbnf":
        return OPTIONS + _from_gbnf(rule.text)
    if "%llguidance" in rule.text:
        raise InputError("This grammar sets options of its own.", "%llguidance", "Remove the line with %llguidance.")
    return OPTIONS + rule.text


@functools.lru_cache(maxsize=64)
def try_out(kind: str, source: str) -> None:
    """Compile a grammar in a process with limited time and memory. Raises InputError if it needs more, or is wrong.

    A short grammar can need a time that is exponential in its length, and compilation cannot be stopped in a thread.
    """
    if kind not in _TRIED:
        return
    try:
        process = subprocess.run(
            [sys.executable, "-I", str(_TRIAL)],
            input=source,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise too_costly() from None
    if process.returncode:
        raise too_costly()
    if process.stdout:
        raise mistake(kind, process.stdout)


def too_costly(got: str = "") -> InputError:
    """Return the error for a rule that needs too much time or memory."""
    return InputError("This rule takes too much time or memory.", got, "Use fewer repetitions and alternatives.")


def mistake(kind: str, said: str) -> InputError:
    """Return the error for a rule that llguidance refuses, with the place in the user's own text where it is known."""
    found = re.match(r"(?:at )?(\d+)\((\d+)\): ", said)
    line = said[found.end() :] if found else said
    message = line.split("\n")[0].strip()
    if parsed := re.search(r"^error: (.+)$", line, re.MULTILINE):
        message = parsed[1]
    if found and kind == "lark":
        message = f"line {int(found[1]) - 1}, column {found[2]}: {message}"
    if kind == "regex" and (caret := re.search(r"^ {4}( *)\^", line, re.MULTILINE)):
        message = f"character {len(caret[1]) + 1}: {message}"
    if any(word in said for word in ("too many", "too large", "too big", "fuel", "limit", "too complex")):
        return too_costly(message[:200])
    return InputError("This rule cannot be read.", message[:200], _HINTS[kind])


def _escaped(regex: str) -> str:
    r"""Return a regular expression as Lark quotes it, with "/" and line breaks escaped, and \d for the ten digits."""
    from llguidance import regex_to_lark

    if re.search(r"(?<!\\)(\\\\)*\\$", regex):
        raise InputError("This rule cannot be read.", "\\", "Write a character after the last backslash.")
    return regex_to_lark(regex, "d").replace("\n", "\\n").replace("\r", "\\r")


def _from_gbnf(text: str) -> str:
    """Convert a GBNF grammar to Lark by llguidance's own converter. Raises InputError for a mistake."""
    from llguidance.gbnf_to_lark import gbnf_to_lark

    try:
        return gbnf_to_lark(text).removeprefix("%llguidance {}\n")
    except Exception as error:  # the converter raises any error for a broken grammar
        raise InputError("This rule cannot be read.", str(error)[:200], _HINTS["gbnf"]) from None
