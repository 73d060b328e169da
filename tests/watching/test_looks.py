"""What a look holds."""

from sigmascope.records import Estimate, Reading
from sigmascope.watching import LOSS, Look


def test_a_look_that_found_nothing_else_holds_readings_only():
    look = Look(3, (Reading(LOSS, "loss", Estimate.exactly(1.0), "watch"),))
    assert (look.spectra, look.findings, look.skipped) == ((), (), ())
