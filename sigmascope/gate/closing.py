"""Things that are open, and are closed where a `with` block ends."""

from abc import ABC, abstractmethod
from typing import TypeVar

T = TypeVar("T", bound="Closing")


class Closing(ABC):
    """Something with `close`, which a `with` block calls at its end, also after an error."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held."""

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
