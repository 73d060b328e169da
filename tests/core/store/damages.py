"""Run files, and every way we know to damage one; all of it follows from a seed."""

import re
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

from sigmascope.core.store import Run
from tests.core.store.rewrites import THROUGH_SQLITE, unsafely

HARMLESS = {"vacuumed", "log turned off", "bytes after the end", "the index dropped"}


def build(folder, profile, findings, steps=5):
    """`a.run`, closed; `b.run` with its last steps in the log; `c.run`, another run with a log."""
    grow(folder / "a.run", profile, findings, range(steps))
    for name in ("b.run", "c.run"):
        live = folder / "live" / name
        live.parent.mkdir(exist_ok=True)
        grow(live, profile, findings, range(2))
        with closing(sqlite3.connect(live)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM steps").fetchall()  # keeps the log from being folded in
            for step in range(2, steps):
                grow(live, profile, findings, [step])
                shutil.copy(f"{live}-wal", folder / f"{name}-wal-{step}")
            shutil.copy(live, folder / name)
            shutil.copy(f"{live}-wal", folder / f"{name}-wal")
            with unsafely(live) as file:
                file.execute("VACUUM")  # writes every page to the log
            shutil.copy(f"{live}-wal", folder / f"{name}-wal-all")
    shutil.rmtree(folder / "live")


def grow(path, profile, findings, steps):
    with Run(path) as run:
        for step in steps:
            run.add_profile(profile, findings, step=step)


def page_of(data):
    (size,) = struct.unpack_from(">H", data, 16)
    return 65536 if size == 1 else size


def flip(data, rng, low, high, bits=1):
    for _ in range(bits):
        data[rng.randrange(low, high)] ^= 1 << rng.randrange(8)


def flip_written(data, rng):
    """Where something was written; half of a small file is empty."""
    at = rng.choice([n for n, byte in enumerate(data) if byte])
    data[at] ^= 1 << rng.randrange(8)


def flip_name(data, rng):
    at = rng.choice([m.start() for m in re.finditer(rb"CREATE T", data)])
    flip(data, rng, at, at + 200)


def pages(data, rng, count):
    size = page_of(data)
    chosen = rng.sample(range(len(data) // size), count)
    return [slice(n * size, (n + 1) * size) for n in chosen]


def swap(data, rng):
    one, other = pages(data, rng, 2)
    data[one], data[other] = data[other], data[one]


def duplicate(data, rng):
    one, other = pages(data, rng, 2)
    data[one] = data[other]


def zero(data, rng):
    (one,) = pages(data, rng, 1)
    data[one] = bytes(page_of(data))


def scribble(data, rng):
    at = rng.randrange(len(data))
    data[at : at + 64] = rng.randbytes(len(data[at : at + 64]))


def insert(data, rng):
    at = rng.randrange(len(data))
    data[at:at] = rng.randbytes(rng.randrange(1, 5000))


def remove(data, rng):
    at = rng.randrange(len(data))
    del data[at : at + rng.randrange(1, 5000)]


def cut(data, rng):
    del data[rng.randrange(len(data)) :]


def cut_at_a_page(data, rng):
    size = page_of(data)
    del data[rng.randrange(len(data) // size) * size :]


def field(at, form, values):
    def change(data, rng):
        struct.pack_into(form, data, at, rng.choice(values))

    return change


BYTES = {
    "cut": cut,
    "cut at a page": cut_at_a_page,
    "empty": lambda data, rng: data.clear(),
    "a bit flipped": lambda data, rng: flip(data, rng, 0, len(data)),
    "a bit of what is written flipped": flip_written,
    "bits flipped": lambda data, rng: flip(data, rng, 0, len(data), bits=rng.randrange(2, 200)),
    "a bit of the header flipped": lambda data, rng: flip(data, rng, 0, 100),
    "a bit of the tables' names flipped": flip_name,
    "a page zeroed": zero,
    "pages swapped": swap,
    "a page twice": duplicate,
    "scribbled over": scribble,
    "bytes inserted": insert,
    "bytes removed": remove,
    "bytes after the end": lambda data, rng: data.extend(rng.randbytes(rng.randrange(1, 9000))),
    "another page size": field(16, ">H", [0, 1, 2, 3, 512, 1024, 8192, 32768, 65535]),
    "another count of pages": field(28, ">I", [0, 1, 7, 2**16, 2**31, 2**32 - 1]),
    "another encoding": field(56, ">I", [0, 2, 3, 4, 2**32 - 1]),
    "another version": field(60, ">I", [0, 1, 3, 2**32 - 1]),
    "another form of table": field(44, ">I", [0, 1, 2, 3, 5, 2**32 - 1]),
}


def of_log(change):
    def changed(path, rng):
        log = Path(f"{path}-wal")
        data = bytearray(log.read_bytes())
        change(data, rng)
        log.write_bytes(data)

    return changed


def other_log(name):
    def change(path, rng):
        shutil.copy(path.parent.parent / "base" / name, f"{path}-wal")

    return change


def of_main(change):
    def changed(path, rng):
        data = bytearray(path.read_bytes())
        change(data, rng)
        path.write_bytes(data)

    return changed


WITH_LOG = {
    "log cut": of_log(cut),
    "log missing": lambda path, rng: Path(f"{path}-wal").unlink(),
    "log older": other_log("b.run-wal-3"),
    "log of another run": other_log("c.run-wal"),
    "log of another run with every page": other_log("c.run-wal-all"),
    "a bit of the log flipped": of_log(lambda data, rng: flip(data, rng, 0, len(data))),
    "bits of the log flipped": of_log(lambda data, rng: flip(data, rng, 0, len(data), bits=50)),
    "the log's header flipped": of_log(lambda data, rng: flip(data, rng, 0, 32)),
    "the log scribbled over": of_log(scribble),
    "the log is noise": of_log(
        lambda data, rng: data.__setitem__(slice(None), rng.randbytes(9999))
    ),
    "the log is a folder": lambda path, rng: (
        Path(f"{path}-wal").unlink(),
        Path(f"{path}-wal").mkdir(),
    ),
    "a bit flipped below a log": of_main(lambda data, rng: flip(data, rng, 0, len(data))),
    "a header flipped below a log": of_main(lambda data, rng: flip(data, rng, 0, 100)),
    "cut below a log": of_main(cut),
    "another run below a log": lambda path, rng: shutil.copy(
        path.parent.parent / "base" / "c.run", path
    ),
}
KINDS = (*BYTES, *THROUGH_SQLITE, *WITH_LOG)


def damage(base, folder, kind, rng):
    """A copy of a run of `base`, damaged; and the name of the run it was."""
    name = "b.run" if kind in WITH_LOG else "a.run"
    path = Path(shutil.copy(base / name, folder / name))
    if kind in WITH_LOG:
        shutil.copy(base / f"{name}-wal", f"{path}-wal")
    change = WITH_LOG.get(kind) or THROUGH_SQLITE.get(kind) or of_main(BYTES[kind])
    change(path, rng)
    return path
