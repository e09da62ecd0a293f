"""Signed login tokens: any process with the key can verify the name in a token."""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

KEEP = 12 * 3600.0  # seconds until a login expires
MOST_ENDED = 500  # maximum number of ended tokens stored per name; beyond that, all tokens of the name end
_BYTES = 32


def key_of(text: str) -> bytes:
    """Parse a key of 64 hexadecimal digits. Raises ValueError for other text."""
    key = bytes.fromhex(text)
    if len(key) != _BYTES:
        raise ValueError(f"a key has {_BYTES} bytes, not {len(key)}")
    return key


class Tokens:
    """A server's login tokens and the cookie that holds one. Tokens of other processes are verified by their
    signature.

    This process remembers revoked tokens and rejects them until they expire.
    """

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        # The same in all processes of one server, but different from that of another server on the same host.
        self.cookie = f"playground-{hmac.digest(key, b'cookie', hashlib.sha256).hex()[:32]}"
        self._key, self._clock = key, clock
        self._ended: dict[str, dict[str, int]] = {}  # name -> token -> its expiry
        self._all_ended: dict[str, int] = {}  # name -> expiry: tokens that expire at or before this time have ended

    def new(self, name: str) -> str:
        """Return a token for a name, valid for `KEEP` seconds."""
        until = self._now(KEEP)
        content = f"{base64.urlsafe_b64encode(name.encode()).decode()}.{until}.{secrets.token_urlsafe(16)}"
        return f"{content}.{self._signature(content)}"

    def name_of(self, token: str | None) -> str | None:
        """Return the name in a token, or None if the token is invalid or expired."""
        read = self._read(token or "")
        if read is None:
            return None
        name, until = read
        ended = token in self._ended.get(name, ()) or until <= self._all_ended.get(name, 0)
        return None if ended else name

    def end(self, token: str | None) -> None:
        """End a token; an invalid one is ignored."""
        name = self.name_of(token)
        if name is None or token is None:
            return
        now, ended = self._now(), self._ended.setdefault(name, {})
        ended[token] = int(token.split(".")[1])
        for each in [each for each, until in ended.items() if until <= now]:
            del ended[each]
        if len(ended) > MOST_ENDED:
            self._all_ended[name] = max(ended.values())
            ended.clear()

    def _now(self, later: float = 0.0) -> int:
        """Return the time `later` seconds from now, in microseconds."""
        return int(1e6 * (self._clock() + later))

    def _read(self, token: str) -> tuple[str, int] | None:
        """Return the name and the expiry of a token with a valid signature that has not expired, else None."""
        content, _, signature = token.rpartition(".")
        if not hmac.compare_digest(self._signature(content).encode(), signature.encode("utf-8", "replace")):
            return None
        name, until, _ = content.split(".")
        return (base64.urlsafe_b64decode(name).decode(), int(until)) if int(until) > self._now() else None

    def _signature(self, content: str) -> str:
        return hmac.digest(self._key, content.encode("utf-8", "replace"), hashlib.sha256).hex()
