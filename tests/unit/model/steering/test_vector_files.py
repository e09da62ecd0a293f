"""Files of steering vectors: read back, read by the gguf package as llama.cpp does, and refused."""

import io

import gguf
import numpy as np
import pytest

from model.errors import InputError
from model.steering.files import VectorFile, load_vectors, save_vectors

VECTORS = {layer: np.random.default_rng(layer).normal(size=6).astype(np.float32) for layer in (3, 1, 2)}


def test_an_npz_comes_back_as_it_was(tmp_path):
    save_vectors(tmp_path / "v.npz", VectorFile(VECTORS, "resid_mid", "glad − sad", "tinygpt"))
    found = load_vectors(tmp_path / "v.npz")
    assert (found.site, found.name, found.model, found.width) == ("resid_mid", "glad − sad", "tinygpt", 6)
    assert list(found.vectors) == [1, 2, 3]
    assert all(np.array_equal(found.vectors[layer], VECTORS[layer]) for layer in VECTORS)


def test_a_gguf_is_a_control_vector_after_the_blocks(tmp_path):
    save_vectors(tmp_path / "v.gguf", VectorFile(VECTORS, "resid_post", "glad", "llama"))
    reader = gguf.GGUFReader(tmp_path / "v.gguf")
    fields = {key: field.contents() for key, field in reader.fields.items()}
    assert fields["general.architecture"] == "controlvector" and fields["controlvector.model_hint"] == "llama"
    assert fields["controlvector.layer_count"] == 3
    tensors = {each.name: each for each in reader.tensors}
    assert set(tensors) == {"direction.1", "direction.2", "direction.3"}
    for layer, vector in VECTORS.items():
        assert np.array_equal(tensors[f"direction.{layer}"].data, vector)
        assert tensors[f"direction.{layer}"].tensor_type == gguf.GGMLQuantizationType.F32
    found = load_vectors(tmp_path / "v.gguf")
    assert (found.site, found.name, found.model, list(found.vectors)) == ("resid_post", "glad", "llama", [1, 2, 3])
    assert all(np.array_equal(found.vectors[layer], VECTORS[layer]) for layer in VECTORS)


def test_before_a_block_is_saved_after_the_one_before(tmp_path):
    save_vectors(tmp_path / "v.gguf", VectorFile({2: VECTORS[2]}, "resid_pre"))
    assert {each.name for each in gguf.GGUFReader(tmp_path / "v.gguf").tensors} == {"direction.1"}
    for file, what in (
        (VectorFile({1: VECTORS[1]}, "resid_pre"), "no direction after the first block.*layer 0"),
        (VectorFile({0: VECTORS[1]}), "no direction after the first block"),
        (VectorFile(VECTORS, "resid_mid"), "acts after a block"),
    ):
        with pytest.raises(InputError, match=what):
            save_vectors(tmp_path / "w.gguf", file)
        assert not (tmp_path / "w.gguf").exists()


def npz(**arrays) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


BAD = {
    "nothing": (b"", "cannot be read"),
    "no archive": (b"PK\x03\x04 and so on", "cannot be read"),
    "no layers": (npz(vectors=np.ones((2, 3))), "cannot be read.*KeyError"),
    "too few layers": (npz(vectors=np.ones((2, 3)), layers=[1]), "cannot be read"),
    "a layer twice": (npz(vectors=np.ones((2, 3)), layers=[1, 1]), "cannot be read"),
    "a pickle": (npz(vectors=np.array([{}], dtype=object), layers=[1]), "cannot be read.*ValueError"),
    "NaN": (npz(vectors=np.full((1, 3), np.nan), layers=[1]), "not finite"),
    "text": (npz(vectors=np.array([["a"]]), layers=[1]), "list of numbers"),
    "a negative layer": (npz(vectors=np.ones((1, 3)), layers=[-1]), "a vector for each of its layers"),
    "an unknown site": (npz(vectors=np.ones((1, 3)), layers=[1], site=np.array("z")), "no such site.*z"),
    "a long name": (npz(vectors=np.ones((1, 3)), layers=[1], name=np.array("x" * 201)), "name of a vector"),
    "half a GGUF": (b"GGUF\x03\x00\x00\x00", "cannot be read"),
}


@pytest.mark.parametrize(("data", "what"), BAD.values(), ids=BAD)
def test_a_file_that_is_none_is_refused(tmp_path, data, what):
    (tmp_path / "v.npz").write_bytes(data)
    with pytest.raises(InputError, match=what):
        load_vectors(tmp_path / "v.npz")


def written(path, architecture="controlvector", tensors=("direction.1",), dtype=np.float32):
    writer = gguf.GGUFWriter(path, architecture)
    for name in tensors:
        writer.add_tensor(name, np.ones(3, dtype))
    for write in (
        writer.write_header_to_file,
        writer.write_kv_data_to_file,
        writer.write_tensors_to_file,
        writer.close,
    ):
        write()


@pytest.mark.parametrize(
    ("made", "what"),
    [
        ({"architecture": "llama"}, "holds no control vector.*llama"),
        ({"tensors": ("direction.0",)}, "cannot be read"),
        ({"tensors": ("direction.1", "other")}, "cannot be read"),
        ({"tensors": ()}, "cannot be read"),
        ({"dtype": np.float16}, "cannot be read"),
    ],
)
def test_a_gguf_without_directions_is_refused(tmp_path, made, what):
    written(tmp_path / "v.gguf", **made)
    with pytest.raises(InputError, match=what):
        load_vectors(tmp_path / "v.gguf")


def test_paths_and_unequal_vectors_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot be read.*No such file"):
        load_vectors(tmp_path / "none.npz")
    with pytest.raises(InputError, match=r"\.npz or \.gguf"):
        save_vectors(tmp_path / "v.pt", VectorFile(VECTORS))
    with pytest.raises(InputError, match="cannot be written"):
        save_vectors(tmp_path / "none" / "v.npz", VectorFile(VECTORS))
    with pytest.raises(InputError, match="different lengths"):
        save_vectors(tmp_path / "v.npz", VectorFile({1: np.ones(3), 2: np.ones(4)}))
    with pytest.raises(InputError, match="for each of its layers"):
        save_vectors(tmp_path / "v.npz", VectorFile({}))
