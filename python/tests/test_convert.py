"""pyleat.convert() against NumPy's arithmetic, bit by bit."""

import ml_dtypes
import numpy as np
import pytest

import pyleat

FLOATS = ["float16", "bfloat16", "float32"]


def numpy_type(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def numbers(name, shape, seed=0):
    """Return numbers of any bits, but no NaN."""
    random = np.random.default_rng(seed)
    if name == "uint8":
        return random.integers(0, 256, shape, np.uint8)
    kind = numpy_type(name)
    made = random.integers(0, 256, (*shape, kind.itemsize), np.uint8).view(kind)[..., 0]
    return np.where(np.isnan(made.astype(np.float32)), kind.type(1.5), made)


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("of", ["uint8", *FLOATS])
def test_types(to, of):
    src = numbers(of, (37, 65))
    x = pyleat.to_device(src)
    y = pyleat.empty(src.shape, to)
    with np.errstate(all="ignore"):
        pyleat.convert(y, x)
        assert np.array_equal(bits(y.to_host()), bits(src.astype(np.float32).astype(numpy_type(to))))
        pyleat.convert(y, x, scale=np.array(0.5), bias=[-3.25])
        wanted = (src.astype(np.float32) * np.float32(0.5) + np.float32(-3.25)).astype(numpy_type(to))
        assert np.array_equal(bits(y.to_host()), bits(wanted))


def test_images_become_normalized_planes():
    images = numbers("uint8", (2, 30, 41, 3))
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    scale, bias = (1 / (255 * std)).astype(np.float32), (-mean / std).astype(np.float32)
    wanted = (images.astype(np.float32) * scale + bias).astype(np.float16).transpose(0, 3, 1, 2)
    planes = pyleat.empty(wanted.shape, "float16")
    pixels = images.transpose(0, 3, 1, 2)
    for src in (pixels, pyleat.to_device(images).transpose(0, 3, 1, 2)):
        pyleat.convert(planes, src, scale=scale, bias=bias, channel=1)
        assert np.array_equal(planes.to_host(), wanted)
        pyleat.convert(planes, src, scale=scale, bias=bias, channel=-3)
        assert np.array_equal(planes.to_host(), wanted)
    host = np.empty(wanted.shape, np.float16)
    pyleat.convert(host, pixels, scale=scale, bias=bias, channel=1)
    assert np.array_equal(host, wanted)


@pytest.mark.parametrize("text", ["u2", "i4", "f8", "f4"])
def test_the_other_byte_order(text):
    src = np.arange(1000).reshape(20, 50).astype(">" + text)
    y = pyleat.empty((50, 20), "<" + text)
    pyleat.convert(y, src.T)
    assert np.array_equal(y.to_host(), src.T.astype("<" + text))
    back = np.zeros((50, 20), ">" + text)
    pyleat.convert(back, y)
    assert np.array_equal(bits(back), bits(np.ascontiguousarray(src.T)))


def test_a_converted_number_of_the_other_byte_order():
    src = np.linspace(-5, 5, 600).reshape(20, 30).astype(">f4")
    y = pyleat.empty((20, 30), "float16")
    pyleat.convert(y, src, scale=2)
    assert np.array_equal(y.to_host(), (src.astype(np.float32) * 2).astype(np.float16))


def test_what_is_refused():
    x, y = pyleat.zeros((4, 3), "uint8"), pyleat.empty((4, 3), "float16")
    with pytest.raises(ValueError, match="shape"):
        pyleat.convert(y, pyleat.zeros((3, 4), "uint8"))
    with pytest.raises(TypeError, match="int32"):
        pyleat.convert(y, pyleat.zeros((4, 3), "int32"))
    with pytest.raises(TypeError, match="float64"):
        pyleat.convert(pyleat.empty((4, 3), "float64"), x)
    with pytest.raises(ValueError, match="2 numbers for 3"):
        pyleat.convert(y, x, scale=[1, 2], channel=1)
    with pytest.raises(ValueError, match="channel 2"):
        pyleat.convert(y, x, channel=2)
    with pytest.raises(pyleat.InvalidError, match="finite"):
        pyleat.convert(y, x, bias=float("inf"))
    with pytest.raises(pyleat.InvalidError, match="only sources"):
        pyleat.convert(x, pyleat.zeros((4, 3), "float16"))
