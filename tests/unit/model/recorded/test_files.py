"""Files of attention: read back, and refused within limits if they are not what they should be."""

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest

from model.errors import InputError
from model.recorded import files
from model.recorded.files import read_npz, save_npz
from model.recorded.record import record_of

RNG = np.random.default_rng(0)
A = RNG.dirichlet(np.ones(4), (2, 3, 4))  # [2, 3, 4, 4]
WORDS = ["The", " cat", " sat", "."]
IMAGE = RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)


def npz(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def archive(method: int = zipfile.ZIP_DEFLATED, **entries: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        for name, data in entries.items():
            made.writestr(f"{name}.npy", data)
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def test_a_record_comes_back(tmp_path):
    record = record_of(A, WORDS, list("wxyz"), image=IMAGE, grid=(2, 2), first_layer=3)
    save_npz(record, tmp_path / "x.npz")
    again = read_npz(tmp_path / "x.npz")
    assert np.array_equal(again.weights, record.weights) and again.queries == record.queries
    assert again.keys == record.keys and again.mask == "cross" and again.first_layer == 3
    assert again.image.data == record.image.data and (again.image.rows, again.image.first) == (2, 0)


def test_every_documented_name_is_read():
    layers = read_npz(npz(layer_0=A[0], layer_1=A[1], tokens=WORDS))
    assert np.allclose(layers.weights, A)
    assert read_npz(npz(layer_7=A[0], layer_8=A[1], tokens=WORDS)).first_layer == 7
    padded = read_npz(npz(attention=A[:, :, :1].repeat(2, 2), tokens=["a", "<pad>"], keys=WORDS, padding=[1, 0]))
    assert padded.queries == ("a",)
    as_bytes = read_npz(npz(attention=A.astype(np.float16), tokens=np.array([b"a", b"b", b"c", b"d"])))
    assert as_bytes.queries == tuple("abcd")
    assert read_npz(npz(attention=np.asfortranarray(A), tokens=WORDS)).weights[1, 2, 3, 0] == np.float32(A[1, 2, 3, 0])
    assert read_npz(npz(attention=A, tokens=WORDS, notes=np.array([1]))).weights.shape == A.shape


LZMA = archive(zipfile.ZIP_LZMA, attention=npy(A), tokens=npy(np.array(WORDS)))
DAMAGED_LZMA = LZMA[:60] + bytes(40) + LZMA[100:]

BAD = {
    "no zip": (b"hello", "not a .npz file"),
    "empty": (b"", "not a .npz file"),
    "cut short": (npz(attention=A, tokens=WORDS)[:-40], "not a .npz file"),
    "other arrays": (npz(x=A), "no attention"),
    "attention twice": (npz(attention=A, layer_0=A[0], tokens=WORDS), "attention twice"),
    "a layer twice": (npz(layer_0=A[0], layer_00=A[0], tokens=WORDS), "a layer twice"),
    "no tokens": (npz(attention=A), "no tokens"),
    "tokens are numbers": (npz(attention=A, tokens=[1, 2, 3, 4]), "tokens is not a list of texts"),
    "a pickle": (archive(attention=npy(A), tokens=npy(np.array(WORDS, object))), "Python objects"),
    "a bare pickle": (pickle.dumps({"attention": A}), "not a .npz file"),
    "damaged LZMA": (DAMAGED_LZMA, "damaged"),
    "no array": (archive(attention=b"hello", tokens=npy(np.array(WORDS))), "damaged"),
    "a structured array": (npz(attention=np.zeros(2, [("a", "f4")]), tokens=WORDS), "Python objects"),
    "a longer header": (archive(attention=npy(A)[:-8], tokens=npy(np.array(WORDS))), "damaged"),
    "no characters": (npz(attention=A, tokens=np.full(4, 0x7FFFFFFF, "<u4").view("<U1")), "damaged"),
    "no first layer": (npz(attention=A, tokens=WORDS, first_layer="a"), "first_layer"),
    "a gap": (npz(layer_0=A[0], layer_2=A[1], tokens=WORDS), "Layers are missing"),
    "rows": (npz(attention=A / 2, tokens=WORDS), "sum to 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused(name, tmp_path):
    data, what = BAD[name]
    (tmp_path / "x.npz").write_bytes(data)
    for source in (data, tmp_path / "x.npz"):
        with pytest.raises(InputError) as error:
            read_npz(source)
        assert what in error.value.what and error.value.hint


def test_a_zip_bomb_is_refused_before_it_is_unpacked(monkeypatch):
    def opened(*_):
        raise AssertionError("unpacked")

    bomb = npz(attention=np.zeros((1, 1, 6000, 6000), np.float32), tokens=WORDS)
    assert len(bomb) < 200_000
    monkeypatch.setattr(zipfile.ZipFile, "open", opened)
    with pytest.raises(InputError, match="unpacks to more"):
        read_npz(bomb, unpacked=32 << 20)


def test_a_header_that_names_more_than_there_is_allocates_nothing():
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1000000, 1000000), }"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\0" * 64
    with pytest.raises(InputError, match="damaged"):
        read_npz(archive(attention=data, tokens=npy(np.array(WORDS))))


def test_sizes_are_limited(tmp_path, monkeypatch):
    data = npz(attention=A, tokens=WORDS)
    (tmp_path / "x.npz").write_bytes(data)
    for source in (data, tmp_path / "x.npz"):
        with pytest.raises(InputError, match="too large"):
            read_npz(source, most=len(data) - 1)
    many = {f"layer_{n}": A[0] for n in range(5)}
    monkeypatch.setattr(files, "MOST_ENTRIES", 4)
    with pytest.raises(InputError, match="too many arrays"):
        read_npz(npz(tokens=WORDS, **many))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot be read") as error:
        read_npz(tmp_path / "none.npz")
    assert "none.npz" in error.value.got
