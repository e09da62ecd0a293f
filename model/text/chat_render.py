"""Rendering of a conversation by a chat template, in a separate process.

A template is an untrusted program, and a process can be limited in time and memory. Standard input is JSON:
{"template", "several": [values]}. Standard output is a list with {"text"} or {"error", "got"} for each set of values.
The error is "syntax" (not a valid template), "refused" (it calls raise_exception), "failed" (an error inside it) or
"limit" (too much time, memory or text).
"""

import contextlib
import json
import sys
from datetime import datetime

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError

SECONDS = 1  # maximum CPU time
MEMORY = 512 << 20  # maximum memory in bytes
MOST_TEXT = 2_000_000  # maximum number of characters


class _Generation(Extension):
    """The tag {% generation %}, which marks the assistant's text for training; its content is rendered unchanged."""

    tags = frozenset({"generation"})

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Namespace(jinja2.utils.Namespace):
    """A namespace that rejects names with a leading underscore, which could reach Python's own attributes."""

    def __init__(self, *values: object, **named: object) -> None:
        for name in dict(*values, **named):
            _check_name(name)
        super().__init__(*values, **named)

    def __setitem__(self, name: str, value: object) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: str) -> None:
    if str(name).startswith("_"):
        raise SecurityError(f"a namespace cannot hold {name}")


def _dict(*values: object, **named: object) -> dict:
    return dict(*values, **named)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


class _Refused(Exception):
    """Error raised by a template that does not accept the given values, with its reason."""


def _refuse(message: str) -> None:
    raise _Refused(message)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: list[str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Serialize a value to JSON, without jinja's escaping for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment() -> jinja2.Environment:
    """Build the sandbox with the functions that transformers offers to chat templates."""
    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    sandbox.filters["tojson"] = _tojson
    sandbox.globals |= {"raise_exception": _refuse, "strftime_now": _now, "namespace": _Namespace, "dict": _dict}
    return sandbox


def write(template: str, values: dict) -> dict[str, str]:
    """Render the template. Returns {"text"}, or {"error", "got"}."""
    try:
        compiled = environment().from_string(template)
    except jinja2.TemplateError as error:
        line = f"line {error.lineno}: " if isinstance(error, jinja2.TemplateSyntaxError) else ""
        return {"error": "syntax", "got": f"{line}{error.message}"}
    parts, size = [], 0
    try:
        for part in compiled.generate(values):
            size += len(part)
            if size > MOST_TEXT:
                return {"error": "limit", "got": ""}
            parts.append(part)
    except (MemoryError, RecursionError):
        return {"error": "limit", "got": ""}
    except _Refused as error:
        return {"error": "refused", "got": str(error)}
    except Exception as error:  # a template can raise any error for its values
        return {"error": "failed", "got": f"{type(error).__name__}: {error}"}
    return {"text": "".join(parts)}


def limit() -> None:
    """Limit this process to SECONDS of CPU time and MEMORY bytes. If that is impossible, only the parent's timeout
    remains.
    """
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    request = json.load(sys.stdin)
    limit()
    json.dump([write(request["template"], values) for values in request["several"]], sys.stdout)
