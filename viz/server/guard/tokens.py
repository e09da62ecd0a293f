"""Who has logged in, known to every process with the key: a token says its name, a signature that it is true."""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

KEEP = 12 * 3600.0  # seconds; then one logs in again
_BYTES = 32


def key_of(text: str) -> bytes:
    """A key of 64 hexadecimal digits. Raises ValueError for another text."""
    key = bytes.fromhex(text)
    if len(key) != _BYTES:
        raise ValueError(f"a key has {_BYTES} bytes, not {len(key)}")
    return key


def cookie_id(key: bytes) -> str:
    """The end of the cookie's name: the same in all processes of a server, another one beside it."""
    return hmac.digest(key, b"cookie", hashlib.sha256).hex()[:32]


class Tokens(dict[str, str]):
    """token -> name, in the place of the framework's own dict: tokens of other processes are found by their signature.

    A token that was ended is refused by this process for as long as it would have been good.
    """

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._key, self._clock = key, clock
        self._ended: dict[str, float] = {}  # until when

    def new(self, name: str) -> str:
        """A token for a name, good for `KEEP` seconds."""
        until = int(self._clock() + KEEP)
        said = f"{base64.urlsafe_b64encode(name.encode()).decode()}.{until}.{secrets.token_urlsafe(16)}"
        return f"{said}.{self._signature(said)}"

    def get(self, token: str | None, default: str | None = None) -> str | None:  # type: ignore[override]
        """The name of a token that is good now."""
        read = self._read(token or "")
        if read is None or token in self._ended:
            return default
        return read[0]

    def __getitem__(self, token: str) -> str:
        name = self.get(token)
        if name is None:
            raise KeyError(token)
        return name

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and self.get(token) is not None

    def pop(self, token: str | None, default: str | None = None) -> str | None:  # type: ignore[override]
        """End a token."""
        name = self.get(token, default)
        if token is not None and (read := self._read(token)) is not None:
            now = self._clock()
            self._ended = {each: until for each, until in self._ended.items() if until > now}
            self._ended[token] = read[1]
        super().pop(token, None)  # type: ignore[arg-type]
        return name

    def _read(self, token: str) -> tuple[str, float] | None:
        """The name and the end of a token whose signature is right and whose time is not over."""
        said, _, signature = token.rpartition(".")
        if not hmac.compare_digest(self._signature(said).encode(), signature.encode("utf-8", "replace")):
            return None
        name, until, _ = said.split(".")
        return (base64.urlsafe_b64decode(name).decode(), float(until)) if float(until) > self._clock() else None

    def _signature(self, said: str) -> str:
        return hmac.digest(self._key, said.encode("utf-8", "replace"), hashlib.sha256).hex()
