"""Error messages on the page: the notice at the top, and the message in a part that cannot be drawn."""

from model.errors import InputError, PlaygroundError, PromptTooLong
from viz.numbers import whole
from viz.words import translate, words


def notice(error: PlaygroundError, language: str) -> dict:
    """Build the notice of an error with its remedy, and a button to try again unless the visitor's own input is
    invalid.

    An overlong prompt can be cut at the model's context length.
    """
    catalogue = words(language)
    got = f" ({error.got})" if error.got else ""
    actions = [] if isinstance(error, InputError) else [{"name": "retry", "text": catalogue["notice.retry"]}]
    if isinstance(error, PromptTooLong) and error.cut:
        text = catalogue["notice.cut"].format(n=whole(error.limit))
        actions = [{"name": "cut", "text": text, "prompt": error.cut}]
    text = translate(error.what, language) + got
    return {"kind": "error", "text": text, "hint": translate(error.hint, language), "actions": actions}


def broken(language: str) -> dict:
    """Build the notice for an internal error; the details are in the log."""
    catalogue = words(language)
    return notice(PlaygroundError(catalogue["notice.failed"], "", catalogue["notice.failed_hint"]), language)
