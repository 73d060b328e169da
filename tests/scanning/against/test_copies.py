import pytest
import torch
from zoo import fresh

from sigmascope.scanning import against
from sigmascope.scanning.against import candidates
from sigmascope.scanning.measuring import sketch
from tests.scanning.made import task


def many(count, shape=(40, 30), seed=0):
    return list(torch.randn(count, *shape, generator=fresh(seed)).unbind())


def pairs_of(matrices, start=0, left_out=()):
    tasks = [task(A, index=i) for i, A in enumerate(matrices)]
    drawn = {i: sketch(A) for i, A in enumerate(matrices) if i not in left_out}
    return candidates(tasks, drawn, start=start)


def places(pairs):
    return sorted((p.tasks[0].index, p.tasks[1].index) for p in pairs)


@pytest.mark.slow
def test_copies_and_near_copies_and_nothing_else_are_found_among_two_thousand():
    matrices = many(2000)
    planted = {1999: 3, 1500: 20, 1024: 1023, 1023 + 500: 777, 40: 39}
    for i, (later, first) in enumerate(planted.items()):
        off = torch.randn(40, 30, generator=fresh(5000 + i))
        matrices[later] = matrices[first] + (0.1 * off if i % 2 else 0)  # cosine 0.995
    assert places(pairs_of(matrices)) == sorted((b, a) for a, b in planted.items())


def test_every_copy_is_held_against_the_first_of_its_kind():
    A, B = many(2)
    assert places(pairs_of([A, B, A, A, B, 2 * A])) == [(0, 2), (0, 3), (0, 5), (1, 4)]


def test_the_table_in_blocks_is_the_whole_table(monkeypatch):
    matrices = many(60)
    for i in (7, 30, 31, 59):
        matrices[i] = matrices[2]
    whole = places(pairs_of(matrices))
    monkeypatch.setattr(against, "ROWS", 7)
    assert places(pairs_of(matrices)) == whole == [(2, 7), (2, 30), (2, 31), (2, 59)]


def test_opposites_and_transposes_are_copies_and_zeros_and_other_shapes_none():
    A, B = many(2)
    zero = torch.zeros(40, 30)
    assert places(pairs_of([A, -A, A.mT.contiguous(), -2 * A.mT, zero, zero])) == [
        (0, 1),
        (0, 2),
        (0, 3),
    ]
    assert pairs_of([A, B.mT, A[:, :29], A.flip(0), A.reshape(30, 40)]) == []


def test_transposes_and_opposites_are_found_among_many():
    matrices = many(400, shape=(30, 30))
    planted = {399: 3, 300: 20, 204: 203, 323: 177}
    for i, (later, first) in enumerate(planted.items()):
        off = 0.1 * torch.randn(30, 30, generator=fresh(5000 + i))
        matrices[later] = (-1) ** i * matrices[first].mT + off
    assert places(pairs_of(matrices)) == sorted((b, a) for a, b in planted.items())


def test_matrices_without_a_sketch_are_left_out():
    A = many(1)[0]
    assert places(pairs_of([A, A, A], left_out={0})) == [(1, 2)]


def test_a_pair_says_what_it_is():
    A = many(1)[0]
    (pair,) = pairs_of([A, A], start=17)
    assert (pair.index, pair.kind, pair.site) == (17 + 0 * 2 + 1, "copy", "w0 = w1")
    assert pair.wanted == {"copy cosine"}
    assert pair.work > 0


def test_places_are_those_of_the_plan_also_where_other_shapes_lie_between():
    A, other = many(1)[0], torch.ones(5, 4)
    found = pairs_of([other, A, many(1, (7, 9))[0], A, other], start=4)
    assert places(found) == [(0, 4), (1, 3)]
    assert sorted(p.index for p in found) == [4 + 0 * 5 + 4, 4 + 1 * 5 + 3]


def test_tasks_need_not_be_all_of_a_plan():
    A, B = many(2)
    tasks = [task(M, index=i) for i, M in ((5, A), (9, B), (40, A))]
    drawn = {t.index: sketch(M) for t, M in zip(tasks, (A, B, A), strict=True)}
    assert places(candidates(tasks, drawn, start=0)) == [(5, 40)]
