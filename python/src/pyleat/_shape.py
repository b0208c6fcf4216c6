"""Arithmetic of sizes and strides."""

from __future__ import annotations


def count(sizes: tuple[int, ...]) -> int:
    """Return the number of elements."""
    product = 1
    for size in sizes:
        product *= size
    return product


def dense_strides(sizes: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides in bytes of an array in C order."""
    strides = []
    step = itemsize
    for size in reversed(sizes):
        strides.append(step)
        step *= size if size else 1
    return tuple(reversed(strides))


def is_dense(sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Return True if the elements follow one another in C order. Sizes of 1 may have any stride."""
    step = itemsize
    dense = True
    for size, stride in zip(reversed(sizes), reversed(strides)):
        if size == 0:
            return True
        if size != 1:
            dense = dense and stride == step
            step *= size
    return dense


def span(sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """Return the first byte and the end of the elements, relative to the first element."""
    if 0 in sizes:
        return 0, 0
    low, high = 0, itemsize
    for size, stride in zip(sizes, strides):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high
