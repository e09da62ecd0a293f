"""User names and passwords from a file that only its owner can read."""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from model.errors import InputError

SCRYPT = "scrypt:"
_COST = {"n": 1 << 14, "r": 8, "p": 1}  # takes 16 MB and a few hundredths of a second
_MOST = 1024  # maximum length of a name or password in characters


def hashed(password: str, salt: bytes | None = None) -> str:
    """Return a password's hash as the file stores it: "scrypt:SALT:KEY", both in hexadecimal."""
    salt = salt or secrets.token_bytes(16)
    return f"{SCRYPT}{salt.hex()}:{hashlib.scrypt(password.encode(), salt=salt, **_COST).hex()}"


def read(path: Path) -> dict[str, str]:
    """Read a login file as {name: hash}. Plain passwords are hashed here, once, so that every check takes equally
    long.

    Raises InputError as `lines` does.
    """
    with ThreadPoolExecutor() as pool:  # scrypt releases the GIL
        people = lines(path)
        return dict(zip(people, pool.map(_kept, people.values()), strict=True))


def _kept(password: str) -> str:
    return password if password.startswith(SCRYPT) else hashed(password)


def lines(path: Path) -> dict[str, str]:
    """Parse lines "name:password" of a login file into {name: password or hash}; "#" begins a comment.

    Raises InputError if the file cannot be read, has no names, or has a malformed line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            "The file of names and passwords cannot be read.",
            str(path)[:200],
            "Give a text file with one line name:password per person.",
        ) from error
    passwords = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not (name.strip() and colon and password) or not _is_whole(password):
            raise InputError(
                "A line of the file of names and passwords cannot be read.",
                f"line {number}",
                "Write name:password, or the line that --hash-password prints.",
            )
        passwords[name.strip()] = password
    if not passwords:
        raise InputError(
            "The file of names and passwords is empty.",
            str(path)[:200],
            "Give a text file with one line name:password per person.",
        )
    return passwords


def _is_whole(password: str) -> bool:
    """Return whether a string that looks like a hash is well formed."""
    if not password.startswith(SCRYPT):
        return True
    salt, _, key = password.removeprefix(SCRYPT).partition(":")
    try:
        return len(bytes.fromhex(salt)) >= 8 and len(bytes.fromhex(key)) == 64
    except ValueError:
        return False


def matches(stored: str, password: str) -> bool:
    """Return whether a password matches a hash, in constant time."""
    salt = bytes.fromhex(stored.removeprefix(SCRYPT).partition(":")[0])
    return hmac.compare_digest(hashed(password, salt), stored)


def checker(people: Mapping[str, str]) -> Callable[[str, str], Awaitable[bool]]:
    """Return a function that checks a name and a password; an unknown name takes as long as a known one."""
    nobody = hashed(secrets.token_hex())

    def check(name: str, password: str) -> bool:
        known = name in people
        return matches(people.get(name, nobody), password) and known

    async def allowed(name: str, password: str) -> bool:
        if len(name) > _MOST or len(password) > _MOST:
            return False
        return await asyncio.to_thread(check, name, password)

    return allowed
