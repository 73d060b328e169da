"""Names of looks elsewhere."""

from sigmascope.core.quantities import quantities
from sigmascope.integrations.names import (
    ALARM,
    alarm_name,
    alarms,
    numbers,
    reading_name,
    spectrum_name,
)
from tests.integrations.looks import BEGINS, ENDS, READINGS, SPECTRA, finding, look, reading


def test_names_group_by_quantity_and_form():
    assert reading_name(reading("blocks.3", "gradient norm", 1.0)) == "gradient norm/blocks.3"
    assert reading_name(reading("a", "spectral norm", 1.0, "matrix")) == "spectral norm - matrix/a"
    assert spectrum_name(SPECTRA[0]) == "singular values - matrix/a"
    assert alarm_name(finding("spike-over", "(loss)")) == "alarm/spike/(loss)"
    assert reading_name(reading("a\nb", "loss", 1.0)) == r"loss/a\nb"


def test_no_two_readings_of_a_look_share_a_name():
    assert len(numbers(look(1))) == len(READINGS)
    for name in quantities():  # what makes names unique: the first slash ends the quantity
        assert "/" not in name
        assert " - " not in name
        assert name != ALARM


def test_an_alarm_is_one_where_it_begins_and_zero_where_it_ends():
    assert alarms(BEGINS) == {"alarm/rank-collapse/blocks.3": 1.0}
    assert alarms(ENDS) == {"alarm/rank-collapse/blocks.3": 0.0}
    assert numbers(BEGINS)["alarm/rank-collapse/blocks.3"] == 1.0
    assert alarms(look(1)) == {}
