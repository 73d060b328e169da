"""The beginning of a file, read value by value in blocks, with a bound on all of it."""

import struct

from sigmascope.gate import Refusal, printable
from sigmascope.sources.stored.places import read_bytes, size_at

BLOCK = 1 << 18  # bytes of the first reading; each is twice the one before
LONGEST = 128 << 20  # bytes of a header; vocabularies of 256 000 words take 10 million


class Cursor:
    """Reads little-endian values one after another.

    Args:
        place: The file.
    """

    def __init__(self, place: str) -> None:
        self.place, self.size = place, size_at(place)
        self.at = 0
        self.start, self.block = 0, b""
        self.reading = BLOCK

    def take(self, count: int) -> bytes:
        """The next bytes.

        Raises:
            Refusal: If the file, or what a header may have, ends before.
        """
        self.require(count)
        begin = self.at - self.start
        if begin + count > len(self.block) or begin < 0:
            length = min(max(self.reading, count), self.size - self.at)
            self.block = bytes(read_bytes(self.place, self.at, length).numpy())
            self.start, begin = self.at, 0
            self.reading = min(2 * self.reading, 16 << 20)
        self.at += count
        return self.block[begin : begin + count]

    def skip(self, count: int) -> None:
        """Go past bytes without reading them.

        Raises:
            Refusal: As `take`.
        """
        self.require(count)
        self.at += count

    def require(self, count: int) -> None:
        """Refuse to go further than the file, or a header, does.

        Raises:
            Refusal: If it would.
        """
        if self.at + count > min(self.size, LONGEST):
            raise Refusal(
                f"`{printable(self.place)}` declares {count} bytes at byte {self.at} of its "
                f"header; it has {self.size} bytes in all, and headers at most {LONGEST}: it is "
                "damaged or was cut."
            )

    def values(self, layout: str) -> tuple[int | float | bool, ...]:
        """Values by a format of `struct`, without its byte order."""
        return struct.unpack(f"<{layout}", self.take(struct.calcsize(f"<{layout}")))

    def whole(self, layout: str) -> int:
        """One whole number."""
        return int(self.values(layout)[0])

    def text(self) -> str:
        """A text, after its length; bytes that are no UTF-8 are written out."""
        return self.take(self.whole("Q")).decode("utf-8", "backslashreplace")
