"""Alarms of one quantity that leaves what it was."""

import pytest

from sigmascope.watching.alarms.rules import RULES, Deviation
from sigmascope.watching.alarms.tracks import Tracks
from sigmascope.watching.sinks import Column


def rule(**settings):
    name = settings.get("quantity", "gradient norm")
    return Deviation("x", "it is far", "warning", frozenset({name}), "s", (), quantity=name,
                  **{k: v for k, v in settings.items() if k != "quantity"})  # fmt: skip


def fed(values, name="gradient norm", sites=("a",), losses=()):
    tracks = Tracks()
    for loss in losses:
        tracks.loss.add(loss)
    for step, value in enumerate(values, 1):
        row = value if isinstance(value, list) else [value] * len(sites)
        tracks.add(step, [Column(name, sites, row)])
    return tracks


CALM = [1.0] * 20


def test_a_jump_of_what_is_usual_is_sharp():
    up = rule(up=True, usual=8.0)
    assert up.look(1, fed([*CALM, 8.0 * (1 + 1e-6)])).sure
    assert not up.look(1, fed([*CALM, 8.0 * (1 - 1e-6)])).sure


def test_what_has_come_half_the_way_is_neither_sure_nor_calm():
    up = rule(up=True, usual=100.0)
    near = up.look(1, fed([*CALM, 20.0]))
    assert (near.sure, near.calm) == (False, False)
    assert up.look(1, fed([*CALM, 5.0])).calm


def test_falls_are_told_from_rises():
    down = rule(up=False, usual=8.0)
    assert down.look(1, fed([*CALM, 0.1])).sure
    assert not down.look(1, fed([*CALM, 10.0])).sure


def test_a_value_must_be_beyond_its_bound_too():
    dying = {"quantity": "dead units", "up": True, "first": 0.25, "beyond": 0.5, "alone": True}
    assert rule(**dying).look(1, fed([0.1] * 20 + [0.6], "dead units")).sure
    assert not rule(**dying).look(1, fed([0.1] * 20 + [0.45], "dead units")).sure
    assert not rule(**dying).look(1, fed([0.4] * 20 + [0.6], "dead units")).sure


def test_while_the_loss_does_not_rise_it_is_no_alarm_unless_it_is_one_alone():
    falling = [1.0 - 0.01 * k for k in range(60)]
    jump = [*CALM, 100.0]
    assert not rule(usual=8.0).look(1, fed(jump, losses=falling)).sure
    assert rule(usual=8.0, alone=True).look(1, fed(jump, losses=falling)).sure
    assert rule(usual=8.0).look(1, fed(jump, losses=[*falling, 9.0, 9.0, 9.0])).sure


def test_the_worst_place_is_named_with_the_others_counted():
    tracks = fed([[1.0, 1.0]] * 20 + [[10.0, 90.0]], sites=("a", "b"))
    sign = rule(usual=8.0, words="{times} times").look(1, tracks)
    assert sign.site == "b"
    assert sign.says == "b: 90 times (and at 1 other places)."


def test_before_there_are_readings_it_is_silent():
    assert rule(usual=8.0).look(1, Tracks()) is None
    assert rule(usual=8.0).look(1, fed([1.0] * 3)) is None


@pytest.mark.parametrize("first", [True, False])
def test_only_the_first_layer_counts_where_inputs_are_meant(first):
    tracks = fed([[1.0, 1.0]] * 20 + [[1.0, 90.0]], sites=("a", "b"))
    assert rule(usual=8.0, first_site=first).look(1, tracks).sure is not first


def test_sharp_attention_is_a_collapse_only_where_nothing_is_learned_or_the_loss_rises():
    (collapse,) = [r for r in RULES if r.name == "attention-collapse"]
    sharp = [0.9] * 10 + [0.05] * 10
    falling = [3.5 * 0.98**k for k in range(200)]
    found = {
        name: collapse.look(1, fed(sharp, "attention entropy", losses=losses)).sure
        for name, losses in {
            "falls": falling,
            "learned": [*falling, *[falling[-1]] * 200],
            "rises": [*falling, *[3.0] * 5],
            "nothing learned": [3.5] * 200,
            "unknown": [],
        }.items()
    }
    assert found == {"falls": False, "learned": False, "rises": True, "nothing learned": True,
                     "unknown": True}  # fmt: skip
