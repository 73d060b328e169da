from sigmascope import report
from sigmascope.scripts.presentation import steps_of
from tests.scripts.loops import FAULTY, code
from tests.scripts.test_rules import run


def test_a_step_is_told_line_by_line():
    found = {word: (where, says) for word, where, says in steps_of(run(code()))}
    assert set(found) == {"model", "loss", "backward", "zero_grad", "step", "data", "time"}
    text = code().splitlines()
    for word, line in (("step", "opt.step()"), ("zero_grad", "opt.zero_grad()")):
        assert line in text[int(found[word][0].rpartition(":")[2]) - 1]
    assert "SGD, rate 0.5, 40 x" in found["step"][1]
    assert "[16, 8] → [16, 2], training mode" in found["model"][1]


def test_schedulers_and_clipping_have_lines_of_their_own():
    words = {word for word, _, _ in steps_of(run(code(*FAULTY["dwindling-rate"])))}
    assert "scheduler" in words
    says = {w: s for w, _, s in steps_of(run(code(*FAULTY["clipped-steps"])))}
    assert says["clipping"].startswith("norm to 0.0001")


def test_what_no_product_knows_is_still_refused():
    import pytest

    with pytest.raises(TypeError, match="got ScriptRun"):
        report.text(run(code()))
