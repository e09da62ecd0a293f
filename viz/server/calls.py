"""Validation of a function call's body before Gradio reads it: the session, the arguments, and no files to fetch."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

FETCHED = "gradio.FileData"  # marks an argument as a file that Gradio would read or fetch, in any function
SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MARK = "_type"


class Unreadable(ValueError):
    """Error raised for a call that neither the page nor a client library would send."""


def read(body: bytes) -> Any:
    """Parse a call as JSON. Raises Unreadable for invalid JSON, duplicate keys, and files."""
    try:
        return json.loads(body, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error) if isinstance(error, Unreadable) else "no JSON") from None


def session_of(call: Any) -> str:
    """Return the session that a call names, or "" if it names none. Raises Unreadable if the call or the name is
    malformed.
    """
    if not isinstance(call, dict):
        raise Unreadable("no call")
    session = call.get("session_hash")
    if session is None:
        return ""
    if not is_session(session):
        raise Unreadable("no name of a session")
    return session


def is_session(text: Any) -> bool:
    """Return whether a value is a valid session name."""
    return isinstance(text, str) and SESSION.fullmatch(text) is not None


def names_sessions(query: bytes) -> bool:
    """Return whether every session named in a query string is valid."""
    named = [
        value for key, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if key == "session_hash"
    ]
    return all(map(is_session, named))


@dataclass(frozen=True)
class Functions:
    """The functions that programs may call, with their arguments.

    A call of any other function, or with the wrong number of arguments, is rejected, because Gradio would log a
    traceback for each.
    """

    events: Mapping[int, tuple[str, int]]  # Gradio's function index -> (name, number of inputs)
    arguments: Mapping[str, Mapping[str, bool]]  # function name -> argument name -> whether it is required

    @classmethod
    def of(cls, config: Mapping[str, Any], arguments: Mapping[str, Mapping[str, bool]]) -> "Functions":
        """Collect the functions listed in the configuration of a page (gr.Blocks.get_config_file)."""
        listed = [each for each in config["dependencies"] if each["backend_fn"]]
        return cls({each["id"]: (each["api_name"], len(each["inputs"])) for each in listed}, arguments)

    def check(self, where: str, call: Mapping[str, Any]) -> None:
        """Raise Unreadable for an unknown function or invalid arguments.

        `where` is the path after the prefix of the API: "queue/join", "call/NAME", "call/v2/NAME".
        """
        if where.startswith("call/"):
            name = where.removeprefix("call/").removeprefix("v2/").rstrip("/")
            if name not in self.arguments:
                raise Unreadable("no such function")
            if where.startswith("call/v2/"):
                self._check_named(self.arguments[name], call)
                return
            number = next((n for n, (each, _) in self.events.items() if each == name), None)
        else:
            number = call.get("fn_index")
        if type(number) is not int or number not in self.events:
            raise Unreadable("no such function")
        data, many = call.get("data"), self.events[number][1]
        if not isinstance(data, list) or len(data) != many:
            raise Unreadable("another number of arguments")

    def _check_named(self, arguments: Mapping[str, bool], names: Collection[str]) -> None:
        if any(name not in arguments for name in names) or any(
            arguments[each] and each not in names for each in arguments
        ):
            raise Unreadable("other arguments")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Unreadable("a key twice")
    if fields.get(_MARK) == FETCHED:
        raise Unreadable("a file")
    return fields
