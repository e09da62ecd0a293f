"""Ways to damage files: at random places, and in the places where a reader believes what a file says.

Every function takes a `random.Random`, which hypothesis can drive (`st.randoms`) as well as a seed.
"""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.support.files.valid_files import Gguf, text, whole_gguf

NUMBERS = (
    0,
    1,
    7,
    255,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 40,
    (1 << 53) + 1,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 8,
    (1 << 64) - 1,
)
DEPTHS = (20, 200, 990, 100_000)
# Stands for brackets in brackets, which Python's own writer of JSON could not write.
DEEP = "@deep{}@"
VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    3,
    1 << 31,
    1 << 63,
    -(1 << 63),
    1 << 70,
    10**400,
    0.5,
    -0.5,
    1e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    "",
    "x",
    "1",
    "\ud800",
    "\u202egnp",
    "../../etc/passwd",
    "/dev/zero",
    "a" * 20_000,
    [],
    {},
    [[]],
    [None],
    [1],
    ["x"],
    {"a": None},
    {"type": "x"},
    {"content": []},
    {"id": {}},
    *(DEEP.format(depth) for depth in DEPTHS),
)
REGEXES = (
    "(",
    "(?:a+)+$",
    r"(?=(\w+))\1*(?!x)",
    "(?:(?:a|aa)+)+(?!.)",
    "a{1000}{1000}{1000}",
    "",
    "(?<=a*)b",
    r"\9",
    "[^",
    "(?!)",
    "x",
    ".",
    r"(?:\s*)*(?=z)|.",
)
STRANGE_BYTES = (b"", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\r\n", b"[" * 5000, b'{"a":' * 5000)


# --- any bytes -------------------------------------------------------------------------------------


def cut(random: Random, raw: bytes) -> bytes:
    """A file that ends early: anywhere, in its first bytes, or one byte before its end."""
    ends = (random.randint(0, len(raw)), random.randint(0, min(64, len(raw))), max(0, len(raw) - 1), 0)
    return raw[: random.choice(ends)]


def flip(random: Random, raw: bytes) -> bytes:
    """One to eight bits the other way round, often near the beginning."""
    changed = bytearray(raw)
    for _ in range(random.randint(1, 8)):
        if changed:
            at = random.randrange(len(changed) if random.random() < 0.5 else min(len(changed), 256))
            changed[at] ^= 1 << random.randrange(8)
    return bytes(changed)


def overwrite(random: Random, raw: bytes) -> bytes:
    """A number that a reader may trust, 4 or 8 bytes wide."""
    value, at = random.choice(NUMBERS), random.randint(0, min(len(raw), 512))
    packed = struct.pack("<Q", value) if random.random() < 0.5 else struct.pack("<I", value & 0xFFFFFFFF)
    return raw[:at] + packed + raw[at + len(packed) :]


def shuffle(random: Random, raw: bytes) -> bytes:
    """A stretch that is left out, doubled, moved, or replaced by other bytes."""
    a, b = sorted(random.randint(0, len(raw)) for _ in range(2))
    b = min(b, a + 64) if random.random() < 0.7 else b
    piece = raw[a:b]
    put = random.choice((b"", piece * 2, piece[::-1], bytes(len(piece)), random.choice(STRANGE_BYTES)))
    return raw[:a] + put + raw[b:]


def grow(random: Random, raw: bytes) -> bytes:
    """Something behind the end, or the file twice."""
    return raw + random.choice((b"\0", b"\0" * 1000, raw, b"}", b"\n\n{"))


ANY: tuple[Callable[[Random, bytes], bytes], ...] = (cut, flip, overwrite, shuffle, grow)


# --- JSON ------------------------------------------------------------------------------------------


def write_json(value: object) -> bytes:
    """The value, DEEP replaced by as many brackets; NaN and Infinity as Python writes them."""
    written = json.dumps(value)
    for depth in DEPTHS:
        written = written.replace(f'"{DEEP.format(depth)}"', "[" * depth + "]" * depth)
    return written.encode()


def damage_json(random: Random, raw: bytes) -> bytes:
    """One to three values that are of another kind, missing, doubled, or absurd."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return random.choice(ANY)(random, raw)
    for _ in range(random.randint(1, 3)):
        value = changed(random, value)
    written = write_json(value)
    if isinstance(value, dict) and value and random.random() < 0.1:
        key, again = random.choice(list(value)), random.choice(VALUES)
        written = b"{" + write_json(key) + b":" + write_json(again) + b"," + written[1:]
    return written


def changed(random: Random, value: object) -> object:
    """The value with one thing in it changed, at any depth."""
    if random.random() < 0.2 or not isinstance(value, dict | list) or not value:
        return random.choice(VALUES)
    whole = dict(value) if isinstance(value, dict) else list(value)
    key = random.choice(list(whole) if isinstance(whole, dict) else range(len(whole)))
    action = random.random()
    if action < 0.15:
        del whole[key]
    elif action < 0.25 and isinstance(whole, dict):
        whole[random.choice(("", "x", "\ud800", "\u202e", "a" * 5000, *whole))] = whole.pop(key)
    elif action < 0.35 and isinstance(whole, list):
        whole.insert(key, random.choice((*VALUES, whole[key])))
    elif action < 0.4 and isinstance(whole[key], str):
        whole[key] = random.choice(REGEXES)
    else:
        whole[key] = changed(random, whole[key])
    return whole


# --- safetensors -----------------------------------------------------------------------------------

DTYPES = (
    "F32",
    "F16",
    "BF16",
    "F64",
    "I8",
    "I64",
    "U8",
    "BOOL",
    "F8_E4M3",
    "F8_E5M2",
    "F8_E8M0",
    "F4",
    "F6_E2M3",
    "C64",
    "U16",
    "f32",
    "",
    "X",
)


def damage_safetensors(random: Random, raw: bytes) -> bytes:
    """A header that lies: its length, types, shapes and offsets; or any damage to the bytes."""
    if random.random() < 0.3 or len(raw) < 8:
        return random.choice(ANY)(random, raw)
    (length,) = struct.unpack_from("<Q", raw)
    try:
        header, rest = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    except (ValueError, RecursionError):
        return random.choice(ANY)(random, raw)
    names = [name for name in header if name != "__metadata__"]
    for _ in range(random.randint(1, 2)):
        _lie(random, header, random.choice(names))
    written = write_json(header)
    claimed = random.choice(NUMBERS) if random.random() < 0.2 else len(written)
    return struct.pack("<Q", claimed) + written + (cut(random, rest) if random.random() < 0.2 else rest)


def _lie(random: Random, header: dict, name: str) -> None:
    entry = header.get(name)
    if not isinstance(entry, dict):
        return
    match random.randrange(7):
        case 0:
            header[name] = entry | {"dtype": random.choice(DTYPES)}
        case 1:
            sizes = [random.choice((0, 1, 2, -1, 1 << 31, 1 << 62, 1 << 63, (1 << 64) - 1)) for _ in range(3)]
            header[name] = entry | {"shape": sizes[: random.randint(0, 3)]}
        case 2:
            ends = [random.choice((*NUMBERS, -1, *entry.get("data_offsets", ()))) for _ in range(2)]
            header[name] = entry | {"data_offsets": ends}
        case 3:  # nothing stored, and a shape that says so although its product overflows
            at = entry.get("data_offsets", [0])[0]
            header[name] = entry | {"shape": [0, 1 << 63, 1 << 62], "data_offsets": [at, at]}
        case 4:
            header[random.choice(("", "../x", "\u202ex", "a" * 5000, "blocks.007.x"))] = header.pop(name)
        case 5:
            header["__metadata__"] = random.choice(VALUES)
        case _:
            header[name] = changed(random, entry)


# --- GGUF ------------------------------------------------------------------------------------------

TYPES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 99, (1 << 32) - 1)
STORED = (0, 1, 2, 3, 6, 8, 10, 12, 14, 16, 19, 24, 26, 28, 30, 34, 39, 99, (1 << 31) - 1)


def damage_gguf(random: Random, raw: bytes) -> bytes:
    """A header that lies: counts, lengths, types, shapes, offsets; a vocabulary that does not fit; or any damage."""
    if random.random() < 0.3:
        return random.choice(ANY)(random, raw)
    file = whole_gguf()
    for _ in range(random.randint(1, 2)):
        random.choice((_count, _value, _value, _value, _tensor, _tensor))(random, file)
    return file.write()


def _count(random: Random, file: Gguf) -> None:
    file.counts = random.choice(((random.choice(NUMBERS), None), (None, random.choice(NUMBERS))))
    file.version = random.choice((3, 3, 3, 0, 1, 2, 4, 1 << 31))


def _payload(random: Random) -> tuple[int, bytes]:
    """A value of any type, true to its type or not."""
    big = struct.pack("<Q", random.choice(NUMBERS))
    return random.choice(
        (
            (8, text(random.choice(("", "x", "\u202e", "gpt-2", "llama")))),
            (8, big + b"abc"),
            (8, text(b"\xff\xfe")),
            (9, struct.pack("<I", random.choice(TYPES)) + big),
            (9, struct.pack("<IQ", 9, 1) * 2000 + b"\0" * 12),
            (9, struct.pack("<IQ3i", 5, 3, 0, -1, 7)),
            (9, struct.pack("<IQ", 8, 2) + text("a") + text("a")),
            (9, struct.pack("<IQ2f", 6, 2, float("nan"), 1.0)),
            (9, struct.pack("<IQ", 8, 0)),
            (4, struct.pack("<I", random.choice(NUMBERS) & 0xFFFFFFFF)),
            (10, big),
            (11, big),
            (5, struct.pack("<i", -1)),
            (6, struct.pack("<f", random.choice((0.0, -1.0, float("nan"), float("inf"), 1e-45)))),
            (12, struct.pack("<d", random.choice((1e300, -1e300, float("nan"), 5e-324)))),
            (7, b"\2"),
            (random.choice(TYPES), b""),
        )
    )


def _value(random: Random, file: Gguf) -> None:
    at = random.randrange(len(file.values))
    key, kind, payload = file.values[at]
    action = random.random()
    if action < 0.1:
        del file.values[at]
    elif action < 0.2:
        file.values.insert(at, file.values[at])
    elif action < 0.3:
        file.values.append(
            (random.choice(("split.count", "llama.attention.sliding_window", "llama.x", "")), *_payload(random))
        )
    elif action < 0.4:
        file.values[at] = (key, kind, random.choice(ANY)(random, payload))
    else:
        file.values[at] = (key, *_payload(random))


def _tensor(random: Random, file: Gguf) -> None:
    at = random.randrange(len(file.infos))
    name, dims, kind, offset = file.infos[at]
    match random.randrange(6):
        case 0:
            dims = tuple(random.choice((*NUMBERS, *dims)) for _ in range(random.randint(0, 5)))
        case 1:
            kind = random.choice(STORED)
        case 2:
            offset = random.choice((*NUMBERS, 32, 0))
        case 3:
            name = random.choice(
                ("", "\u202e", "blk.999999.attn_q.weight", "blk.07.attn_q.weight", "rope_freqs.weight", "output.bias")
            )
        case 4:
            dims, offset = tuple(reversed(dims)), 0
        case _:
            file.data = cut(random, file.data)
    file.infos[at] = (name, dims, kind, offset)


# --- a folder --------------------------------------------------------------------------------------


def damage_of(name: str) -> Callable[[Random, bytes], bytes]:
    """What suits a file by its name."""
    kinds = {".json": damage_json, ".safetensors": damage_safetensors, ".gguf": damage_gguf}
    return kinds.get(Path(name).suffix, lambda random, raw: random.choice(ANY)(random, raw))


def damage(random: Random, folder: Path) -> str:
    """Damage one or two files of a folder in place; says what was done."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    if random.random() < 0.06:
        return _misplace(random, files)
    done = []
    for path in random.sample(files, k=2 if len(files) > 1 and random.random() < 0.2 else 1):
        path.write_bytes(damage_of(path.name)(random, path.read_bytes()))
        done.append(path.name)
    return ", ".join(done)


def _misplace(random: Random, files: list[Path]) -> str:
    """A file that is missing, a folder, another file, a link to itself, or a link to a device."""
    path, other = random.choice(files), random.choice(files)
    action = random.choice(("missing", "folder", "other", "loop", "device"))
    raw = other.read_bytes()
    path.unlink()
    match action:
        case "folder":
            path.mkdir()
        case "other":
            path.write_bytes(raw)
        case "loop":
            path.symlink_to(path.name)
        case "device":
            path.symlink_to("/dev/zero")
    return f"{path.name} {action}"
