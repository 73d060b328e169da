"""A damaged run file gives what was written or a clear word, and stays as it is."""

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Finding, Profile
from sigmascope.core.store import Damaged, Run, exports
from sigmascope.core.store.files import snapshot
from tests.core.store import damages
from tests.core.store.rewrites import CELLS, TABLES, THROUGH_SQLITE
from tests.core.store.test_versions import OLD
from tests.test_records import made

# wrong, but of the right kind: only a checksum can tell
NUMBERS = {"another number", "nearly the same number", "another word", "step", "count"}
FIRST = CELLS.keys() - {"null"}  # format 1 takes none
DECODED = (
    *("readings", "facts", "spectra", "checks", "findings"),
    *("skipped", "layers", "about", "views"),
)


def read(path):
    """Every cell of every table; all of them are decoded, too."""
    with Run(path, write=False) as run:
        cells = {table: tuple(run.cells(table)) for table in TABLES}
        for name in DECODED:
            list(getattr(run, name)())
        steps = sorted({row[0] for found in cells.values() for row in found})
        assert list(run.steps()) == steps
        return cells


def upto(cells, steps):
    return {table: tuple(r for r in found if r[0] < steps) for table, found in cells.items()}


def look(folder):
    return {
        file.relative_to(folder): file.read_bytes() if file.is_file() else None
        for file in folder.rglob("*")
        if not file.name.endswith("-shm")  # SQLite's index of a log
    }


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    profile = made(Profile)
    whole = replace(profile, readings=profile.readings * 60)  # over several pages
    folder = tmp_path_factory.mktemp("damages") / "base"
    folder.mkdir()
    damages.build(folder, whole, [made(Finding)])
    return folder


@pytest.fixture(scope="module")
def truth(base):
    """What each kind of damage may leave: all, the steps up to one if a log is damaged."""
    a, b, c = (read(base / name) for name in ("a.run", "b.run", "c.run"))
    shorter = [upto(b, steps) for steps in range(6)]
    of_another = shorter + [upto(c, steps) for steps in range(6)]
    return {
        kind: [a]
        if kind not in damages.WITH_LOG
        else of_another
        if "another run" in kind
        else shorter
        for kind in damages.KINDS
    }


def require_words(error, path):
    assert type(error) in (Damaged, Refusal, FileNotFoundError), repr(error)
    words = str(error)
    assert str(path) in words
    assert "\n" not in words
    assert len(words) < 700


def require_true_part(path, truth):
    """What can be saved of a damaged file is true, step by step."""
    for table in TABLES:
        try:
            with snapshot(path, lenient=True) as found:
                whole, _ = exports._judged(found, table)
                saved = [row for step in whole for row in exports._cells(found, table, *step)]
        except (ValueError, OSError) as error:
            require_words(error, path)
            continue
        steps = {step for step, _, _ in whole}
        assert tuple(saved) in [tuple(r for r in t[table] if r[0] in steps) for t in truth]


def outcome(path, truth):
    """`"true"`, `"refused"` or `"shorter"`; anything else fails."""
    before = look(path.parent)
    try:
        found = read(path)
    except (ValueError, OSError) as error:
        require_words(error, path)
        found = None
    if found is None:
        with pytest.raises((ValueError, OSError)) as refusal:
            Run(path)
        require_words(refusal.value, path)
        require_true_part(path, truth)
    assert look(path.parent) == before
    if found is None:
        return "refused"
    assert found in truth
    return "true" if found == max(truth, key=lambda t: len(t["readings"])) else "shorter"


def run_all(base, truth, folder, seeds):
    counts = {}
    for kind in damages.KINDS:
        for seed in seeds:
            shutil.rmtree(folder / "case", ignore_errors=True)
            (folder / "case").mkdir()
            path = damages.damage(base, folder / "case", kind, random.Random(f"{kind} {seed}"))
            try:
                found = outcome(path, truth[kind])
            except AssertionError as error:
                raise AssertionError(f"{kind} {seed}") from error
            counts[kind, found] = counts.get((kind, found), 0) + 1
    return counts


@pytest.fixture
def beside(base):
    """A folder from which a damage finds the files of `base`."""
    yield base.parent
    shutil.rmtree(base.parent / "case", ignore_errors=True)


def test_damage_is_named_or_touches_nothing(base, truth, beside):
    counts = run_all(base, truth, beside, range(1))
    assert sum(counts.values()) == len(damages.KINDS) >= 60
    for kind in damages.HARMLESS:
        assert counts == counts | {(kind, "true"): 1}
    for kind in THROUGH_SQLITE.keys() - damages.HARMLESS:
        assert (kind, "true") not in counts, kind


def require_no_harm(path):
    """Format 1 cannot tell every wrong number, but nothing else may come of it, either."""
    before = look(path.parent)
    try:
        read(path)
    except (ValueError, OSError) as error:
        require_words(error, path)
    assert look(path.parent) == before


@pytest.mark.parametrize("kind", [*damages.BYTES, *(f"a cell with {k}" for k in sorted(FIRST))])
def test_a_damaged_file_of_format_1_is_refused_in_words_or_read(tmp_path, kind, beside):
    for seed in range(3):
        path = Path(shutil.copy(OLD, tmp_path / "old.run"))
        change = THROUGH_SQLITE.get(kind) or damages.of_main(damages.BYTES[kind])
        change(path, random.Random(f"{kind} {seed}"))
        require_no_harm(path)
        path.unlink()


@pytest.mark.parametrize("kind", sorted(FIRST - NUMBERS))
def test_a_cell_of_the_wrong_kind_is_noticed_in_format_1_too(tmp_path, kind, beside):
    path = Path(shutil.copy(OLD, tmp_path / "old.run"))
    THROUGH_SQLITE[f"a cell with {kind}"](path, random.Random(0))
    with pytest.raises(Damaged):
        read(path)


def test_bare_cells_of_format_1_are_checked_for_their_kind(tmp_path):
    path = Path(shutil.copy(OLD, tmp_path / "old.run"))
    THROUGH_SQLITE["a cell with number"](path, random.Random(0))
    with pytest.raises(Damaged, match=r"readings\.value must be REAL"):
        Run(path, write=False)


def test_every_bit_of_a_small_file_may_flip(path, tmp_path):
    """A bit in some of the bytes that are not zero, and in some of all."""
    true, data = read(path), path.read_bytes()
    written = [n for n, byte in enumerate(data) if byte]
    rng = random.Random(0)
    counts = dict.fromkeys(("true", "refused"), 0)
    case = tmp_path / "case"
    case.mkdir()
    for at in [*rng.sample(written, 75), *rng.sample(range(len(data)), 25)]:
        flipped = bytearray(data)
        flipped[at] ^= 1 << rng.randrange(8)
        (case / "a.run").write_bytes(flipped)
        counts[outcome(case / "a.run", [true])] += 1
    assert counts["true"] < counts["refused"]


@pytest.mark.slow
def test_thousands_of_damaged_files_are_named_or_touch_nothing(base, truth, beside):
    counts = run_all(base, truth, beside, range(2, 62))
    total = sum(counts.values())
    for kind in damages.KINDS:
        print(kind, {f: n for (k, f), n in counts.items() if k == kind})
    print({f: sum(n for (_, g), n in counts.items() if g == f) for f in {f for _, f in counts}})
    assert total >= 3000
