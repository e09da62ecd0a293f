"""The GGUF reader: what it reads, bit for bit, and what it refuses."""

import os
import struct

import gguf
import numpy as np
import pytest
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import CheckpointError, PlaygroundError, UnsupportedModel
from model.loading.gguf_file import FAST, dequantize, files_of, read_gguf, states_of


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(key: str, kind: int, payload: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + payload


def info(name: str, dims: tuple[int, ...], kind: int, offset: int) -> bytes:
    head = text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
    return head + struct.pack("<IQ", kind, offset)


def file(values: list[bytes], infos: list[bytes], data: bytes = b"", version: int = 3, align: int = 32) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, len(infos), len(values)) + b"".join(values + infos)
    return head + b"\0" * (-len(head) % align) + data


@pytest.fixture
def parse(tmp_path):
    """Write the bytes and read them as GGUF."""

    def run(content: bytes):
        (tmp_path / "m.gguf").write_bytes(content)
        return read_gguf(tmp_path / "m.gguf")

    return run


FLOATS = np.arange(6, dtype="<f4").tobytes()


def test_values_of_every_type(parse):
    values = [
        entry("u8", 0, b"\xff"),
        entry("i8", 1, b"\xff"),
        entry("u16", 2, b"\xff\xff"),
        entry("i16", 3, b"\xfe\xff"),
        entry("u32", 4, struct.pack("<I", 7)),
        entry("i32", 5, struct.pack("<i", -7)),
        entry("f32", 6, struct.pack("<f", 0.5)),
        entry("yes", 7, b"\1"),
        entry("s", 8, text("é")),
        entry("u64", 10, struct.pack("<Q", 1 << 40)),
        entry("i64", 11, struct.pack("<q", -1)),
        entry("f64", 12, struct.pack("<d", 0.1)),
        entry("strings", 9, struct.pack("<IQ", 8, 2) + text("a") + text("")),
        entry("ints", 9, struct.pack("<IQ3i", 5, 3, 1, -2, 3)),
        entry("none", 9, struct.pack("<IQ", 8, 0)),
    ]
    got = parse(file(values, [])).metadata
    ints = got.pop("ints")
    assert ints.dtype == np.int32 and ints.tolist() == [1, -2, 3]
    assert got == {
        "u8": 255,
        "i8": -1,
        "u16": 65535,
        "i16": -2,
        "u32": 7,
        "i32": -7,
        "f32": 0.5,
        "yes": True,
        "s": "é",
        "u64": 1 << 40,
        "i64": -1,
        "f64": 0.1,
        "strings": ["a", ""],
        "none": [],
    }
    assert got["yes"] is True


@pytest.mark.parametrize("version", [2, 3])
def test_a_tensor_has_torch_order_and_memory_of_its_own(parse, version):
    parsed = parse(file([], [info("w", (3, 2), 0, 0)], FLOATS, version))
    tensor = parsed.read("w")
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]] and tensor.is_contiguous()
    tensor.zero_()
    assert parsed.read("w").sum() == 15


def test_alignment_of_the_file_is_used(parse):
    values = [entry("general.alignment", 4, struct.pack("<I", 256))]
    parsed = parse(file(values, [info("w", (6,), 0, 0)], FLOATS, align=256))
    assert parsed.tensors["w"].offset % 256 == 0 and parsed.read("w").tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", FAST, ids=lambda kind: kind.name)
@given(st.data())
@settings(max_examples=30, deadline=None)
def test_fast_types_equal_gguf_bit_for_bit(kind, data):
    """Any bytes at all: subnormal scales, infinities and NaNs included."""
    block, size = GGML_QUANT_SIZES[kind]
    rows, blocks = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    raw = np.frombuffer(data.draw(st.binary(min_size=rows * blocks * size, max_size=rows * blocks * size)), np.uint8)
    with np.errstate(all="ignore"):
        wanted = gguf.quants.dequantize(raw.reshape(rows, -1), kind).reshape(rows, -1)
    stored = raw.copy()
    got = dequantize(stored, kind, (rows, blocks * block)).numpy()
    assert not np.shares_memory(stored, got), "the tensor hangs on the mapped file"
    nan = np.isnan(wanted)  # which of the many NaNs it is does not matter
    assert np.array_equal(nan, np.isnan(got))
    assert np.array_equal(got.view(np.int32)[~nan], np.ascontiguousarray(wanted).view(np.int32)[~nan])


OTHER = (
    *("Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4"),
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"),
)


@pytest.mark.parametrize("name", OTHER)
def test_other_types_come_from_gguf(name):
    kind = GGMLQuantizationType[name]
    block, size = GGML_QUANT_SIZES[kind]
    raw = np.random.default_rng(0).integers(0, 60, 3 * 2 * size, dtype=np.uint8)  # small: scales stay finite
    got = dequantize(raw, kind, (3, 2 * block))
    assert got.dtype == torch.float32 and got.is_contiguous()
    assert np.array_equal(got.numpy(), gguf.quants.dequantize(raw.reshape(3, -1), kind))


def test_nibbles_and_scales_by_hand():
    """Q4_1: d = 2, m = 1; byte i holds element i below and element i + 16 above."""
    block = np.frombuffer(struct.pack("<2e", 2, 1) + bytes([0x31] + [0] * 15), np.uint8).copy()
    got = dequantize(block, GGMLQuantizationType.Q4_1, (32,))
    assert got[0] == 2 * 1 + 1 and got[16] == 2 * 3 + 1 and got[1] == 1
    block = np.frombuffer(struct.pack("<e", 2) + bytes([0x31] + [0x88] * 15), np.uint8).copy()
    got = dequantize(block, GGMLQuantizationType.Q4_0, (32,))
    assert got[0] == 2 * (1 - 8) and got[16] == 2 * (3 - 8) and got[1] == 0


WHOLE = file(
    [
        entry("general.architecture", 8, text("llama")),
        entry("t", 9, struct.pack("<IQ", 8, 3) + text("a") + text("bc") + text("d")),
        entry("n", 9, struct.pack("<IQ2i", 5, 2, 1, 2)),
    ],
    [info("w", (3, 2), 0, 0), info("b", (2,), 0, 32)],
    FLOATS + b"\0" * 8 + FLOATS[:8],
)


def test_no_prefix_of_a_file_is_taken_for_a_file(parse):
    assert parse(WHOLE).read("b").tolist() == [0, 1]
    for length in range(len(WHOLE)):
        with pytest.raises(CheckpointError):
            parse(WHOLE[:length])


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_one_wrong_byte_is_read_or_refused(tmp_path_factory, at, byte):
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    path.write_bytes(WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :])
    try:
        parsed = read_gguf(path)
        for name, place in parsed.tensors.items():
            assert parsed.read(name).shape == place.shape
    except PlaygroundError:
        pass


HUGE = (1 << 64) - 1
BROKEN = {
    "not GGUF": (b"PK\3\4" + b"\0" * 40, "starts with"),
    "empty": (b"", "cannot be read"),
    "absurd number of tensors": (b"GGUF" + struct.pack("<IQQ", 3, HUGE, 0) + b"\0" * 40, "claims"),
    "absurd number of values": (b"GGUF" + struct.pack("<IQQ", 3, 0, HUGE) + b"\0" * 40, "claims"),
    "absurd string": (file([text("k") + struct.pack("<IQ", 8, HUGE)], []), "reaches past"),
    "absurd array of strings": (file([entry("k", 9, struct.pack("<IQ", 8, HUGE))], []), "reaches past"),
    "absurd array of numbers": (file([entry("k", 9, struct.pack("<IQ", 5, HUGE))], []), "reaches past"),
    "array whose last string is too long": (
        file([entry("k", 9, struct.pack("<IQ", 8, 1) + struct.pack("<Q", 500))], []),
        "reaches past",
    ),
    "array of arrays": (file([entry("k", 9, struct.pack("<IQ", 9, 1) + b"\0" * 20)], []), "value type 9"),
    "unknown value type": (file([entry("k", 13, b"\0" * 8)], []), "value type 13"),
    "not UTF-8": (file([entry("k", 8, struct.pack("<Q", 2) + b"\xff\xfe")], []), "UTF-8"),
    "doubled key": (file([entry("k", 0, b"\1")] * 2, []), "k occurs twice"),
    "doubled tensor": (file([], [info("w", (6,), 0, 0)] * 2, FLOATS), "w occurs twice"),
    "five dimensions": (file([], [info("w", (1,) * 5, 0, 0)], FLOATS), "5 dimensions"),
    "no elements": (file([], [info("w", (0,), 0, 0)], FLOATS), "shape"),
    "offset past the end": (file([], [info("w", (6,), 0, 32)], FLOATS), "ends at byte"),
    "absurd shape": (file([], [info("w", (1 << 40, 1 << 40), 0, 0)], FLOATS), "ends at byte"),
    "rows that are no blocks": (file([], [info("w", (33,), 8, 0)], b"\0" * 68), "multiples of 32"),
    "odd alignment": (file([entry("general.alignment", 4, struct.pack("<I", 3))], []), "power of two"),
    "alignment of text": (file([entry("general.alignment", 8, text("x"))], []), "power of two"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_say_what_is_wrong(case, parse):
    content, words = BROKEN[case]
    with pytest.raises(CheckpointError, match=words) as caught:
        parse(content)
    assert caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        file([], [], version=1),
        b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        file([], [info("w", (6,), 99, 0)], FLOATS),
    ],
    ids=["version 1", "big-endian", "unknown tensor type"],
)
def test_what_is_intact_but_not_read(content, parse):
    with pytest.raises(UnsupportedModel):
        parse(content)


@pytest.mark.parametrize("kind", ["I32", "Q8_1", "Q8_K"])
def test_a_type_without_values_is_refused_by_name(kind, parse):
    number = GGMLQuantizationType[kind]
    block, size = GGML_QUANT_SIZES[number]
    parsed = parse(file([], [info("w", (block,), number, 0)], bytes(size)))
    with pytest.raises(UnsupportedModel, match=kind):
        parsed.read("w")


# --- split files -----------------------------------------------------------------------------------


def part(number: int, name: str, count: int = 3, tensors: int = 3, **more: bytes) -> bytes:
    values = [
        entry("split.count", 2, struct.pack("<H", count)),
        entry("split.no", 2, struct.pack("<H", number)),
        entry("split.tensors.count", 5, struct.pack("<i", tensors)),
        *(entry(key, 8, text("x")) for key in more),
    ]
    return file(values, [info(name, (6,), 0, 0)], np.full(6, number, "<f4").tobytes())


def write_parts(folder, **changes: bytes) -> list:
    """Write three parts, and return their paths."""
    parts = {f"m-{n + 1:05}-of-00003.gguf": part(n, f"w{n}", **({"first": b""} if n == 0 else {})) for n in range(3)}
    for name, content in (parts | changes).items():
        (folder / name).write_bytes(content)
    return [folder / name for name in parts]


@pytest.mark.parametrize("which", range(3))
def test_any_part_opens_all_parts(which, tmp_path):
    paths = write_parts(tmp_path)
    parsed = read_gguf(paths[which])
    assert parsed.path == paths[0] and parsed.metadata["first"] == "x"
    assert [parsed.read(f"w{n}")[0].item() for n in range(3)] == [0, 1, 2]
    assert files_of(paths[which]) == tuple(paths)


def test_a_missing_part_is_named(tmp_path):
    paths = write_parts(tmp_path)
    paths[1].unlink()
    with pytest.raises(CheckpointError, match="m-00002-of-00003") as caught:
        read_gguf(paths[0])
    assert "m-00003" not in str(caught.value.got)


BROKEN_PARTS = {
    "another order": ({"m-00002-of-00003.gguf": part(2, "w1")}, "split.no"),
    "another count": ({"m-00002-of-00003.gguf": part(1, "w1", count=4)}, "split.count"),
    "a tensor twice": ({"m-00003-of-00003.gguf": part(2, "w1")}, "w1 is in two parts"),
    "a tensor less": ({"m-00001-of-00003.gguf": part(0, "w0", tensors=4)}, "split.tensors.count"),
    "a cut part": ({"m-00002-of-00003.gguf": part(1, "w1")[:-4]}, "ends at byte"),
}


@pytest.mark.parametrize("case", BROKEN_PARTS)
def test_parts_that_do_not_fit(case, tmp_path):
    changes, words = BROKEN_PARTS[case]
    paths = write_parts(tmp_path, **changes)
    with pytest.raises(CheckpointError, match=words):
        read_gguf(paths[0])


def test_a_part_with_another_name_is_refused(tmp_path):
    write_parts(tmp_path)[0].rename(tmp_path / "m.gguf")
    with pytest.raises(CheckpointError, match=r"m\.gguf") as caught:
        read_gguf(tmp_path / "m.gguf")
    assert "-00001-of-" in caught.value.hint


def test_a_name_like_a_part_is_no_part(tmp_path):
    path = tmp_path / "m-00001-of-00002.gguf"
    path.write_bytes(WHOLE)
    assert read_gguf(path).read("b").tolist() == [0, 1]


def test_states_change_with_any_part(tmp_path):
    paths = write_parts(tmp_path)
    before = states_of(paths[0])
    assert before == states_of(paths[2]) and len(before) == 3
    os.utime(paths[1], (1, 1))
    assert states_of(paths[0]) != before


def test_a_file_cut_after_it_was_parsed_is_an_error_not_a_crash(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(WHOLE)
    parsed = read_gguf(path)
    path.write_bytes(WHOLE[:-20])
    with pytest.raises(CheckpointError, match="tensor b"):
        parsed.read("b")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="nothing"):
        read_gguf(tmp_path / "nothing.gguf")
