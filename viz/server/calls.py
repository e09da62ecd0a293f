"""What a call of a function holds, looked at before Gradio does: whose page asks, and nothing that would be fetched."""

import json
import re
from typing import Any
from urllib.parse import parse_qsl

FETCHED = "gradio.FileData"  # what Gradio would read or fetch for the argument of any function
SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MARK = "_type"


class Unreadable(ValueError):
    """A call that no page of ours and no client sends."""


def read(body: bytes) -> Any:
    """A call as JSON. Raises Unreadable for what is none, keys that are there twice, and files."""
    try:
        return json.loads(body, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error) if isinstance(error, Unreadable) else "no JSON") from None


def session_of(call: Any) -> str:
    """The session that a call names, "" for none. Raises Unreadable for what is no call, or no name of a session."""
    if not isinstance(call, dict):
        raise Unreadable("no call")
    session = call.get("session_hash")
    if session is None:
        return ""
    if not is_session(session):
        raise Unreadable("no name of a session")
    return session


def is_session(text: Any) -> bool:
    """Whether a session may be named so."""
    return isinstance(text, str) and SESSION.fullmatch(text) is not None


def names_sessions(where: str, query: bytes) -> bool:
    """Whether every session that an address of the API names is named as one."""
    named = [
        value for key, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if key == "session_hash"
    ]
    if where.startswith("heartbeat/"):
        named += where.removeprefix("heartbeat/").rstrip("/").split(",")
    return all(map(is_session, named))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unreadable("a key twice")
    if found.get(_MARK) == FETCHED:
        raise Unreadable("a file")
    return found
