"""Pickles read without running anything in them.

A pickle names classes and calls them. Here a name becomes an inert stand-in, and a call of it a
note of what would have been called; only what is listed by the reader is built. What could take
memory or time beyond the bytes of the file is not accepted.

Why not `torch.load(weights_only=True)`, nor `FileSystemReader` of `torch.distributed.checkpoint`:
the first refuses a file for one setting or number of NumPy beside its weights and what was saved
with a pickle protocol of 4 or later, and a file of 250 bytes, tuples in tuples as a key, keeps it
busy for hours (0.16 s at 24 levels, twice that for each more); the second runs what `.metadata`
says. All measured with torch 2.13: `benchmarks/RESULTS.md`, "Readers of checkpoints".
"""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sigmascope.core.guard import Refusal, printable, told

SEVERAL = 16  # arguments, more than anything that is built takes
WEIGHT = 70  # bytes in memory that a byte of a pickle may become, counted of `}` and `(`


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A class or function that a pickle names, not looked up."""

    name: str


class Note:
    """A call that a pickle asks for, not made, with the state that it would have been given."""

    __slots__ = ("args", "name", "state")

    def __init__(self, name: str, args: tuple[Any, ...]) -> None:
        self.name, self.args = name, args
        self.state: Any = None

    def get(self, field: str) -> Any:
        """A field of the state; None where there is none."""
        return self.state.get(field) if isinstance(self.state, dict) else None

    def add(self, *_: Any) -> None:
        """What a pickle puts into an object that was not made is left away."""

    append = extend = __setitem__ = add


class Flat(tuple):
    """A tuple that is a key only if it holds none: hashing tuples within tuples takes forever."""

    def __hash__(self) -> int:
        if any(isinstance(value, tuple) for value in self):
            raise Refusal("it has keys that are no names")
        return super().__hash__()


_Base: Any = vars(pickle)["_Unpickler"]  # the reader in Python: its memo is no array
_NOT_READ = {  # codes that no checkpoint needs: the registry of this process, and old classes
    code[0] for code in (pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.INST, pickle.OBJ)
}


class _Reader(_Base):
    """The reader of the standard library, with names and calls made inert."""

    def __init__(
        self,
        file: Any,
        builds: Mapping[str, Callable[..., Any]],
        storage: Callable[[Any], Any] | None,
    ) -> None:
        super().__init__(file, encoding="utf-8")
        self.builds, self.storage = builds, storage

    def find_class(self, module: str, name: str) -> Callable[..., Any] | Name:
        full = f"{module}.{name}"
        return self.builds.get(full) or Name(full)

    def persistent_load(self, pid: Any) -> Any:
        if self.storage is None:
            raise Refusal("it refers to something outside of itself")
        return self.storage(pid)

    def load_reduce(self) -> None:
        args, target = self.stack.pop(), self.stack.pop()
        if not isinstance(args, tuple):
            raise Refusal("it calls what is no name")
        # a note takes the tuple itself: copies of a long one would take memory without end
        named = isinstance(target, Name)
        self.append(Note(target.name, args) if named else target(*args[:SEVERAL]))

    load_newobj = load_reduce

    def load_newobj_ex(self) -> None:
        self.stack.pop()
        self.load_newobj()

    def load_build(self) -> None:
        state = self.stack.pop()  # never set on what was built: it says where in a file to read
        if isinstance(self.stack[-1], Note):
            self.stack[-1].state = state

    def load_tuple(self) -> None:
        items = self.pop_mark()  # which changes what `append` is
        self.append(Flat(items))

    def load_tuple1(self) -> None:
        self.stack[-1:] = [Flat(self.stack[-1:])]

    def load_tuple2(self) -> None:
        self.stack[-2:] = [Flat(self.stack[-2:])]

    def load_tuple3(self) -> None:
        self.stack[-3:] = [Flat(self.stack[-3:])]

    def load_bytearray(self) -> None:
        # as bytes: an array of the size that is declared would be made before it is read
        self.append(self.read(int.from_bytes(self.read(8), "little")))

    dispatch: ClassVar[dict[int, Any]] = {
        code: load for code, load in _Base.dispatch.items() if code not in _NOT_READ
    } | {
        pickle.REDUCE[0]: load_reduce,
        pickle.NEWOBJ[0]: load_newobj,
        pickle.NEWOBJ_EX[0]: load_newobj_ex,
        pickle.BUILD[0]: load_build,
        pickle.TUPLE[0]: load_tuple,
        pickle.TUPLE1[0]: load_tuple1,
        pickle.TUPLE2[0]: load_tuple2,
        pickle.TUPLE3[0]: load_tuple3,
        pickle.BYTEARRAY8[0]: load_bytearray,
    }


def read_pickle(
    file: Any,
    location: str,
    *,
    builds: Mapping[str, Callable[..., Any]],
    storage: Callable[[Any], Any] | None = None,
) -> Any:
    """What a pickle describes: plain containers, what is built, and notes of everything else.

    Args:
        file: It, at its beginning; left at its end. Its bytes were weighed, `WEIGHT` times.
        location: The file that it is in, for a refusal.
        builds: What to call in the place of a name.
        storage: What a persistent identifier stands for.

    Raises:
        Refusal: If it is damaged, or has what is not accepted.
    """
    try:
        return _Reader(file, builds, storage).load()
    except Refusal as error:
        raise Refusal(
            f"`{printable(location)}` cannot be read: {str(error).rstrip('.')}."
        ) from error
    except Exception as error:  # of bytes that are no pickle the reader raises anything
        raise Refusal(
            f"`{printable(location)}` is damaged or no pickle of a checkpoint ({told(error)})."
        ) from error
