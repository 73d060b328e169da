import copy
import pickle
from datetime import UTC, datetime

import pytest

from sigmascope.records import Skipped
from sigmascope.store import Row

ROW = Row(3, datetime(2026, 1, 2, tzinfo=UTC), Skipped("head", "weights", "lazy"))


def test_a_row_has_the_attributes_of_its_record():
    assert (ROW.step, ROW.site, ROW.why) == (3, "head", "lazy")
    with pytest.raises(AttributeError, match="colour"):
        _ = ROW.colour


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_a_row_can_be_copied_and_sent(twin):
    assert twin(ROW) == ROW
