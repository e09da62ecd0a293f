"""Who has logged in: a token says its name, a signature that it is true. Every process with the key knows it."""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

KEEP = 12 * 3600.0  # seconds; then one logs in again
MOST_ENDED = 500  # tokens of one name that are remembered as ended; beyond them all that the name had end
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
        self._ended: dict[str, dict[str, int]] = {}  # by name: a token and until when it is good
        self._all_ended: dict[str, int] = {}  # by name: so have those that are good until then and no longer

    def new(self, name: str) -> str:
        """A token for a name, good for `KEEP` seconds."""
        until = self._now(KEEP)
        said = f"{base64.urlsafe_b64encode(name.encode()).decode()}.{until}.{secrets.token_urlsafe(16)}"
        return f"{said}.{self._signature(said)}"

    def get(self, token: str | None, default: str | None = None) -> str | None:  # type: ignore[override]
        """The name of a token that is good now."""
        read = self._read(token or "")
        if read is None:
            return default
        name, until = read
        ended = token in self._ended.get(name, ()) or until <= self._all_ended.get(name, 0)
        return default if ended else name

    def __getitem__(self, token: str) -> str:
        name = self.get(token)
        if name is None:
            raise KeyError(token)
        return name

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and self.get(token) is not None

    def pop(self, token: str | None, default: str | None = None) -> str | None:  # type: ignore[override]
        """End a token."""
        name = self.get(token)
        if name is None or token is None:
            return default
        now, ended = self._now(), self._ended.setdefault(name, {})
        ended[token] = int(token.split(".")[1])
        for each in [each for each, until in ended.items() if until <= now]:
            del ended[each]
        if len(ended) > MOST_ENDED:
            self._all_ended[name] = max(ended.values())
            ended.clear()
        return name

    def _now(self, later: float = 0.0) -> int:
        """So many seconds from now, in microseconds."""
        return int(1e6 * (self._clock() + later))

    def _read(self, token: str) -> tuple[str, int] | None:
        """The name and the end of a token whose signature is right and whose time is not over."""
        said, _, signature = token.rpartition(".")
        if not hmac.compare_digest(self._signature(said).encode(), signature.encode("utf-8", "replace")):
            return None
        name, until, _ = said.split(".")
        return (base64.urlsafe_b64decode(name).decode(), int(until)) if int(until) > self._now() else None

    def _signature(self, said: str) -> str:
        return hmac.digest(self._key, said.encode("utf-8", "replace"), hashlib.sha256).hex()
