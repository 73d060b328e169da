from dataclasses import replace

from sigmascope.diagnosis.presentation.profile import layers_grid, sparklines_grid
from sigmascope.records import Layer, Profile
from sigmascope.report.screens import Screen


def test_without_layers_or_readings_there_is_no_table():
    assert layers_grid(Profile(()), frozenset(), Screen()) is None
    assert sparklines_grid(Profile(()), Screen()) is None


def test_the_middle_of_a_deep_net_is_counted_and_layers_to_keep_are_shown(profile):
    more = tuple(Layer(f"more.{i}", "Linear", 33 + i) for i in range(30))
    deep = replace(profile, layers=(*profile.layers, *more))
    kept = profile.layers[20].site
    named = lambda table: [str(cell) for cell in table.columns[1].cells]
    assert kept not in named(layers_grid(deep, frozenset(), Screen()))
    short = named(layers_grid(deep, frozenset({kept}), Screen()))
    assert kept in short
    assert "… 6 more" in short
    assert layers_grid(deep, frozenset(), Screen(whole=True)).row_count == 64


def test_fewer_quantities_are_shown_where_there_is_less_room(profile):
    wide, narrow = (layers_grid(profile, frozenset(), Screen(width)) for width in (160, 50))
    assert len(narrow.columns) < len(wide.columns)
    assert len(narrow.columns) >= 3


def test_curves_are_as_long_as_there_is_room(profile):
    wide, narrow = (sparklines_grid(profile, Screen(width)) for width in (160, 80))
    drawn = [max(len(str(cell)) for cell in table.columns[1].cells) for table in (wide, narrow)]
    assert drawn == [33, 12]
