"""Pickles read without running anything in them.

A pickle names classes and calls them. Here a name becomes an inert stand-in, and a call of it a
note of what would have been called; only what is listed by the reader is built. What could take
memory or time beyond the bytes of the file is not accepted.
"""

import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sigmascope import gate
from sigmascope.gate import Refusal, printable
from sigmascope.sources.refusals import told

NOT_READ = (  # codes that no checkpoint needs: registries of this process, buffers, old classes
    pickle.PERSID,
    pickle.INST,
    pickle.OBJ,
    pickle.EXT1,
    pickle.EXT2,
    pickle.EXT4,
    pickle.BYTEARRAY8,
    pickle.NEXT_BUFFER,
    pickle.READONLY_BUFFER,
)
WEIGHT = 70  # bytes in memory that a byte of a pickle may become, counted of `}` and `(`
KEYS = (str, int, float, bool, bytes, type(None))


@dataclass(frozen=True, eq=False)
class Name:
    """A class or function that a pickle names, not looked up."""

    module: str
    word: str

    @property
    def full(self) -> str:
        """Module and name."""
        return f"{self.module}.{self.word}"


class Note:
    """A call that a pickle asks for, not made, with the state that it would have been given."""

    __slots__ = ("args", "name", "state")

    def __init__(self, name: str, args: tuple[Any, ...]) -> None:
        self.name, self.args = name, args
        self.state: Any = None

    def get(self, field: str) -> Any:
        """A field of the state; None where there is none."""
        return self.state.get(field) if isinstance(self.state, dict) else None


Builds = Mapping[str, Callable[..., Any]]


_Base: Any = vars(pickle)["_Unpickler"]  # the reader in Python: its memo is no array
_LOADS: dict[int, Any] = _Base.dispatch


class _Reader(_Base):
    """The reader of the standard library, with names and calls made inert."""

    def __init__(
        self,
        data: bytes,
        builds: Builds,
        accepts: Callable[[str], bool],
        held: Callable[[Any], Any] | None,
    ) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self.builds, self.accepts, self.held = builds, accepts, held

    def find_class(self, module: str, name: str) -> Name:
        found = Name(str(module), str(name))
        if not self.accepts(found.full):
            raise Refusal(f"it names `{printable(found.full)}`, which is not built here")
        return found

    def persistent_load(self, pid: Any) -> Any:
        if self.held is None:
            raise Refusal("it refers to something outside of itself")
        return self.held(pid)

    def _called(self, target: Any, args: Any) -> Any:
        if not isinstance(target, Name) or not isinstance(args, tuple):
            raise Refusal("it calls what is no name")
        build = self.builds.get(target.full)
        return Note(target.full, args) if build is None else build(*args)

    def load_reduce(self) -> None:
        args = self.stack.pop()
        self.stack[-1] = self._called(self.stack[-1], args)

    def load_newobj(self) -> None:
        args, target = self.stack.pop(), self.stack.pop()
        self.append(self._called(target, args))

    def load_newobj_ex(self) -> None:
        self.stack.pop()
        self.load_newobj()

    def load_build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Note):
            self.stack[-1].state = state

    def load_append(self) -> None:
        value = self.stack.pop()
        if isinstance(self.stack[-1], list):
            self.stack[-1].append(value)

    def load_appends(self) -> None:
        values = self.pop_mark()
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(values)

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def load_setitems(self) -> None:
        self._set(self.pop_mark())

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.append({})
        self._set(items)

    def load_set(self) -> None:
        self.append([])  # a list: sets would hash what the file chooses

    def load_frozenset(self) -> None:
        items = self.pop_mark()  # which changes what `append` is
        self.append(items)

    def _set(self, items: list[Any]) -> None:
        """Items of a mapping; keys are such as hash in no time, tuples within tuples do not."""
        to = self.stack[-1]
        if isinstance(to, Note):
            return
        if not isinstance(to, dict) or len(items) % 2:
            raise Refusal("it sets items of what is no mapping")
        for key, value in zip(items[::2], items[1::2], strict=True):
            plain = isinstance(key, (*KEYS, Note, Name))
            if not plain and not (isinstance(key, tuple) and all(isinstance(k, KEYS) for k in key)):
                raise Refusal("it has keys that are no names")
            to[key] = value

    dispatch: ClassVar[dict[int, Any]] = {
        code: load for code, load in _LOADS.items() if code not in {c[0] for c in NOT_READ}
    } | {
        pickle.REDUCE[0]: load_reduce,
        pickle.NEWOBJ[0]: load_newobj,
        pickle.NEWOBJ_EX[0]: load_newobj_ex,
        pickle.BUILD[0]: load_build,
        pickle.APPEND[0]: load_append,
        pickle.APPENDS[0]: load_appends,
        pickle.ADDITEMS[0]: load_appends,
        pickle.EMPTY_SET[0]: load_set,
        pickle.FROZENSET[0]: load_frozenset,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
        pickle.DICT[0]: load_dict,
    }


def read_pickle(
    data: bytes,
    place: str,
    *,
    builds: Builds,
    accepts: Callable[[str], bool] = lambda name: True,
    held: Callable[[Any], Any] | None = None,
) -> Any:
    """What a pickle describes: plain containers, what is built, and notes of everything else.

    Args:
        data: The pickle.
        place: The file, for a refusal.
        builds: What to call in the place of a name.
        accepts: Whether a pickle may have a name in it.
        held: What a persistent identifier stands for.

    Raises:
        Refusal: If it is damaged, or has what is not accepted.
    """
    gate.require_room(WEIGHT * len(data), f"The pickle in `{printable(place)}`")
    try:
        return _Reader(data, builds, accepts, held).load()
    except Refusal as error:
        raise Refusal(f"`{printable(place)}` cannot be read: {str(error).rstrip('.')}.") from error
    except Exception as error:  # of bytes that are no pickle the reader raises anything
        raise Refusal(
            f"`{printable(place)}` is damaged or no pickle of a checkpoint ({told(error)})."
        ) from error
