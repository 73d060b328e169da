"""SQLite's write-ahead log, read as bytes: what was committed in it, and whether it is whole.

The format is section 4 of https://www.sqlite.org/fileformat2.html. SQLite takes a log up to the
first frame that is wrong and says nothing of what comes after; here damage is told from the remains
of a transaction that was never committed.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

_LITTLE = 0x377F0682  # the magic number; its last bit tells the order of bytes in checksums
_HEAD, _FRAME = 32, 24

Sums = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Log:
    """What a log adds to the file beside it.

    Attributes:
        pages: Where in the log the newest committed content of a page begins, from page 1.
        size: Pages of the file after the last commit; 0 if there was none.
        broken: Why it cannot be trusted to hold all that was committed; empty if it can.
    """

    pages: Mapping[int, int] = field(default_factory=dict)
    size: int = 0
    broken: str = ""


def read(log: bytes, page: int) -> Log:
    """The committed part of a log whose pages have `page` bytes."""
    if len(log) < _HEAD or not any(log):
        return Log()  # a writer was stopped before its first frame
    magic, _, size, _, *_ = struct.unpack_from(">8I", log)
    order = ">" if magic & 1 else "<"
    sums = _sums((0, 0), log[:24], order)
    if magic | 1 != _LITTLE | 1 or sums != struct.unpack_from(">2I", log, 24):
        return Log(broken="the first bytes of its log are wrong")
    if size != page:
        return Log(broken=f"its log is of pages of {size} bytes, and the file of {page}")
    pages: dict[int, int] = {}
    pending: dict[int, int] = {}
    total, at = 0, _HEAD
    for number, end, at in _frames(log, page, sums, order):
        pending[number] = at - page
        if end:
            pages.update(pending)
            pending, total = {}, end
    return Log(pages, total, _remains(log, at, page))


def _frames(log: bytes, page: int, sums: Sums, order: str) -> Iterator[tuple[int, int, int]]:
    """`(page number, pages of the file if it commits else 0, end in the log)` while all is well."""
    salts = log[16:24]
    for at in range(_HEAD, len(log) - _FRAME - page + 1, _FRAME + page):
        begin = at + _FRAME
        number, end = struct.unpack_from(">2I", log, at)
        sums = _sums(sums, log[at : at + 8] + log[begin : begin + page], order)
        right = sums == struct.unpack_from(">2I", log, at + 16)
        if not right or log[at + 8 : at + 16] != salts or not number:
            return
        yield number, end, begin + page


def _remains(log: bytes, at: int, page: int) -> str:
    """What is wrong with the bytes after the last good frame; empty if a stop explains them."""
    rest = log[at:]
    if len(rest) < _FRAME + page or not any(rest):
        return ""
    mine, salt = struct.unpack_from(">2I", log, 16)
    theirs, other = struct.unpack_from(">2I", rest, 8)
    # SQLite counts the first salt up and draws the second whenever it begins a log anew
    older = 0 < (mine - theirs) % 2**32 < 2**16 and other != salt
    return "" if older else f"its log breaks off after {at} of {len(log)} bytes"


def _sums(sums: Sums, data: bytes, order: str) -> Sums:
    """SQLite's checksum, which for all words at once is a product of matrices modulo 2³²."""
    words = np.frombuffer(data, f"{order}u4").astype("=u4")
    first, second, power = _powers(len(words) // 2)
    x, y = words[0::2], words[1::2]
    kept = power * np.array(sums, "=u4")
    both = (
        np.concatenate((weights[0] * x, weights[1] * y, row)).sum(dtype="=u4")
        for weights, row in zip((first, second), kept, strict=True)
    )
    a, b = map(int, both)
    return a, b


@cache
def _powers(pairs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What each pair `(x, y)` of words weighs in `s += x + t; t += y + s`, and what s and t do."""
    rows, power = [], ((1, 0), (0, 1))
    for _ in range(pairs):
        (a, b), (c, d) = power
        rows.append((a + b, b, c + d, d))  # power @ [[1, 0], [1, 1]]
        power = (
            ((a + b) % 2**32, (a + 2 * b) % 2**32),  # power @ [[1, 1], [1, 2]]
            ((c + d) % 2**32, (c + 2 * d) % 2**32),
        )
    weights = np.array([[w % 2**32 for w in row] for row in reversed(rows)], "=u4").reshape(-1, 4).T
    return weights[:2], weights[2:], np.array(power, "=u4")
