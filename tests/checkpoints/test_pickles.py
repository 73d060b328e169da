import collections
import io
import os
import pickle
import struct
import tracemalloc
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st

from sigmascope.checkpoints.arrays import InFile
from sigmascope.checkpoints.pickles import Name, Note, read_pickle
from sigmascope.core.guard import Refusal

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.tuples(inner, inner)
    ),
)


@given(value=PLAIN, protocol=st.integers(0, 5))
def test_plain_values_come_back(value, protocol):
    found = read(pickle.dumps(value, protocol))
    assert found == value or protocol < 3  # which write bytes as calls


def read(data, **options):
    return read_pickle(io.BytesIO(data), "file", builds={}, **options)


@pytest.mark.parametrize(
    ("value", "kind", "names"),
    [
        (Path("x"), Note, "pathlib."),
        (collections.Counter("aab"), Note, "collections.Counter"),
        (collections.deque([1]), Note, "collections.deque"),
        (os.getcwd, Name, ("os.getcwd", "posix.getcwd")),
        (os.system, Name, ("os.system", "posix.system")),
        (exec, Name, "builtins.exec"),
    ],
)
def test_what_is_called_becomes_a_note_and_what_is_named_a_name(value, kind, names):
    found = read(pickle.dumps(value))
    assert isinstance(found, kind)
    assert found.name.startswith(names)


class Thing:
    def __init__(self):
        self.inner = [1, 2]


def test_states_are_kept_but_not_set():
    found = read(pickle.dumps(Thing()))
    assert found.name.endswith(".Thing")
    assert found.get("inner") == [1, 2]
    assert found.get("other") is None


def test_sets_are_lists():
    assert sorted(read(pickle.dumps({1, 2}))) == [1, 2]
    assert sorted(read(pickle.dumps(frozenset({1, 2}), 4))) == [1, 2]


def test_arrays_of_bytes_are_read_as_bytes():
    assert read(pickle.dumps(bytearray(b"abc"), 5)) == b"abc"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"\x80\xff.",
        b"\x80\x04\x96" + struct.pack("<Q", 1 << 40) + b"x.",  # an array of a terabyte
        b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"x.",
        b"K\x01K\x02R.",  # a call of a number
        b"]K\x01\x85K\x02s.",  # an item of a list
        b"\x82\x01.",  # the registry of this process
        b"(cos\nsystem\nS'x'\no.",
        b"(S'x'\nios\nsystem\n.",
        b"}K\x01\x85\x85K\x02s.",  # a key of a tuple of a tuple
        b"I" + b"9" * 9999 + b"\n.",
        b"h\x09.",
    ],
)
def test_what_no_checkpoint_needs_is_refused(data):
    with pytest.raises(Refusal):
        read(data)


def test_a_memo_of_the_file_s_choice_takes_no_memory():
    tracemalloc.start()
    assert read(b"Nr\xff\xff\xff\x7f.") is None  # a place two thousand million in the memo
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_tuples_within_tuples_take_no_time_as_keys():
    deep = b")" + b"2\x86" * 60  # a tuple of itself twice, sixty times: hashing takes 2^60 steps
    with pytest.raises(Refusal, match="keys that are no names"):
        read(b"\x80\x02}" + deep + b"K\x01s.")


def test_long_arguments_of_many_calls_take_no_memory():
    many = b"(" + b"K\x01" * 20_000 + b"tq\x00" + b"ca\nb\nq\x01"  # a tuple and a name, kept
    calls = b"h\x01h\x00R0" * 2000
    tracemalloc.start()
    read(b"\x80\x02" + many + calls + b"N.")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20


def test_the_state_of_what_was_built_is_not_set():
    built = InFile("file", 0, torch.float32, (1,))
    data = b"\x80\x02ca\nb\n)R](X\x04\x00\x00\x00evilK\x00NNNeb."
    found = read_pickle(io.BytesIO(data), "file", builds={"a.b": lambda: built})
    assert found is built
    assert found.location == "file"


@settings(max_examples=200)
@given(data=st.binary(max_size=60), end=st.booleans())
def test_any_bytes_are_read_or_refused(data, end):
    buffer = io.BytesIO()
    pickle.dump({"a": (1, Path("x")), "b": [Thing()]}, buffer)
    try:
        read(data + b"." if end else buffer.getvalue()[: len(data)] + data)
    except Refusal as error:
        said = str(error)
    else:
        said = ""
    assert said.isprintable()
