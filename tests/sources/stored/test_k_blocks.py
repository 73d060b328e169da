import numpy as np

from sigmascope.sources.stored.k_blocks import K_KINDS, bits, half, nibbles, pairs


def test_halves_of_bytes_come_run_by_run():
    bytes_ = np.array([[0x21, 0x43, 0x65, 0x87]], np.uint8)
    assert nibbles(bytes_, 2).tolist() == [[1, 3, 2, 4, 5, 7, 6, 8]]
    assert nibbles(bytes_, 4).tolist() == [[1, 3, 5, 7, 2, 4, 6, 8]]


def test_pairs_of_bits_come_lowest_first():
    assert pairs(np.array([[0b11100100, 0b00011011]], np.uint8), 2).tolist() == [
        [0, 3, 1, 2, 2, 1, 3, 0]
    ]


def test_bits_of_all_bytes_come_lowest_first():
    data = np.zeros((1, 32), np.uint8)
    data[0, 5], data[0, 31] = 1, 128
    assert np.flatnonzero(bits(data)[0]).tolist() == [5, 7 * 32 + 31]


def test_halves_are_float16():
    assert half(np.float16([1.5]).view(np.uint8)[None]).tolist() == [[1.5]]


def test_zero_scales_make_zeros_of_any_codes():
    for _, numbers, size, turn in K_KINDS.values():
        assert turn(np.zeros((3, size), np.uint8)).tolist() == [[0.0] * numbers] * 3
