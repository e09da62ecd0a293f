"""The body of a page's request: its settings and its state, untrusted until parsed here."""

import json
from collections.abc import Mapping
from typing import Any

from viz.page.pipeline import ASKS, PageRequest
from viz.views.tabs import TABS
from viz.work.playground import MOST_NAME

MOST_ID = 64  # maximum length of the name of a visit or a part in characters


def read(body: bytes) -> Mapping[str, Any]:
    """Parse a request body as JSON. Raises ValueError unless it is an object."""
    try:
        sent = json.loads(body)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(sent, Mapping):
        raise ValueError("not an object")
    return sent


def page_request(sent: Mapping[str, Any], language: str) -> PageRequest:
    """Parse the page request in a body; malformed fields count as absent."""
    values = sent.get("values")
    named = {name: values[name] for name in ASKS & values.keys()} if isinstance(values, Mapping) else {}
    return PageRequest(
        text_of(sent.get("model"), MOST_NAME),
        text_of(sent.get("prompt")),
        sent.get("selection"),
        named,
        shown_of(sent.get("shown")),
        language,
        text_of(sent.get("tab"), MOST_ID) or TABS[0].key,
        text_of(sent.get("done"), MOST_ID),
        visitor=text_of(sent.get("visit"), MOST_ID),
        chat=sent.get("chat"),
    )


def shown_of(sent: Any) -> dict:
    """Parse the state that a page reports: {"run", "language", "drawn": {part: key}}."""
    if not isinstance(sent, Mapping):
        return {}
    drawn = sent.get("drawn")
    named = {name: key for name, key in drawn.items() if isinstance(key, str)} if isinstance(drawn, Mapping) else {}
    texts = {name: sent[name] for name in ("run", "language") if isinstance(sent.get(name), str)}
    return {**texts, "drawn": named}


def text_of(sent: Any, limit: int | None = None) -> str:
    """Return a string, cut to `limit` characters if there is a limit; "" for any other value."""
    return sent[:limit] if isinstance(sent, str) else ""
