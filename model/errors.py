"""Errors that a person can cause, worded for that person."""


class PlaygroundError(Exception):
    """Something the user asked for cannot be done; the page shows `what` and `hint`, never a traceback.

    Args:
        what: what went wrong, one plain sentence.
        got: the offending value, shortened where it is long; "" where there is none to show.
        hint: what to do about it, one plain sentence.
    """

    def __init__(self, what: str, got: str = "", hint: str = "") -> None:
        self.what, self.got, self.hint = what, got, hint
        super().__init__(" ".join(part for part in (what, f"Got: {got}." if got else "", hint) if part))


class InputError(PlaygroundError):
    """The prompt, an option or a selection is not usable."""


class CheckpointError(PlaygroundError):
    """A file of weights, a config or a vocabulary is missing, broken or not what it says."""


class UnsupportedModel(PlaygroundError):
    """The checkpoint is intact but describes an architecture this project does not compute."""


class DownloadError(PlaygroundError):
    """Weights could not be fetched: no network, no space, or not the bytes that were expected."""
