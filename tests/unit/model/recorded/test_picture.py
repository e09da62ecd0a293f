"""Pictures of patches: arrays, PIL images and files, and the grid."""

import io

import numpy as np
import pytest
from PIL import Image

from model.errors import InputError
from model.recorded.picture import picture, png

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)


def decoded(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def test_pixels_are_encoded_exactly():
    assert np.array_equal(decoded(png(PIXELS)), PIXELS)


@pytest.mark.parametrize(
    "image",
    [PIXELS, Image.fromarray(PIXELS), PIXELS / 255, PIXELS.transpose(2, 0, 1), np.dstack([PIXELS, PIXELS[:, :, :1]])],
    ids=str.split("array PIL floats channels-first alpha"),
)
def test_every_form_of_an_image_gives_the_same_pixels(image):
    made = picture(image, (2, 3), 7)
    assert np.array_equal(decoded(made.data), PIXELS)
    assert (made.rows, made.columns, made.first, made.kind) == (2, 3, 1, "image/png")


def test_files_are_kept_as_they_are(tmp_path):
    for name, kind in (("x.png", "image/png"), ("x.jpg", "image/jpeg")):
        Image.fromarray(PIXELS).save(tmp_path / name)
        made = picture(tmp_path / name, (2, 2), 4)
        assert made.data == (tmp_path / name).read_bytes() and made.kind == kind


def test_gray_is_repeated():
    assert np.array_equal(decoded(picture(PIXELS[:, :, 0], None, 4).data), np.repeat(PIXELS[:, :, :1], 3, 2))


def test_the_grid_is_a_square_after_one_special_token():
    for keys, side, first in ((49, 7, 0), (50, 7, 1), (197, 14, 1), (1, 1, 0)):
        made = picture(PIXELS, None, keys)
        assert (made.rows, made.columns, made.first) == (side, side, first)


@pytest.mark.parametrize(
    ("image", "grid", "keys", "what"),
    [
        (PIXELS, None, 24, "not a square"),
        (PIXELS, (5, 5), 24, "more patches"),
        (PIXELS, (5,), 24, "two numbers"),
        (PIXELS, 5, 24, "two numbers"),
        (PIXELS, (0, 5), 24, "two numbers"),
        (np.zeros((4, 4, 7), np.uint8), None, 4, "not an image"),
        (np.zeros((0, 4, 3), np.uint8), None, 4, "not an image"),
        (PIXELS.astype(float), None, 4, "not colors"),
        (PIXELS.astype(int) - 1, None, 4, "not colors"),
        (b"<svg onload=alert(1)>", None, 4, "not a PNG or JPEG"),
        ("none.png", None, 4, "cannot be read"),
        (png(PIXELS)[:40], None, 4, "cut off"),
        (png(PIXELS)[:33] + png(PIXELS)[-12:], None, 4, "cut off"),
        (b"\xff\xd8\xff\xe0" + bytes(40), None, 4, "cut off"),
        (np.zeros((5000, 5000, 3), np.uint8), None, 4, "too large"),
    ],
    ids=str.split("square patches one number zero channels empty floats negative svg missing header pixels jpeg large"),
)
def test_bad_images_are_refused(image, grid, keys, what):
    with pytest.raises(InputError) as error:
        picture(image, grid, keys)
    assert what in error.value.what and error.value.hint
