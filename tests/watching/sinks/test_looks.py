"""What a look holds."""

from sigmascope.records import Estimate, Reading
from sigmascope.watching import LOSS, Look
from sigmascope.watching.sinks import one_line


def test_a_look_that_found_nothing_else_holds_readings_only():
    look = Look(3, (Reading(LOSS, "loss", Estimate.exactly(1.0), "watch"),))
    assert (look.spectra, look.findings, look.skipped) == ((), (), ())


def test_what_went_wrong_is_one_line_that_ends():
    assert one_line(ValueError("a\n  b")) == "a b"
    assert len(one_line("x" * 999)) == 300
