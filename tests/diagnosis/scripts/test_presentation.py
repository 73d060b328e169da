from collections import Counter

import pytest

from sigmascope import report
from sigmascope.diagnosis.scripts.presentation import in_order, steps_of
from sigmascope.diagnosis.scripts.seen import Line, LoaderSeen, LossSeen, OptimizerSeen, ScriptRun
from tests.diagnosis.scripts.loops import FAULTY, RATES, SETUP, STEP, ZERO, code
from tests.diagnosis.scripts.test_rules import run


def test_a_step_is_told_line_by_line():
    found = {word: (place, says) for word, place, says in steps_of(run(code()))}
    assert set(found) == {"model", "loss", "backward", "zero_grad", "step", "data", "time"}
    text = code().splitlines()
    for word, line in (("step", "opt.step()"), ("zero_grad", "opt.zero_grad()")):
        assert line in text[found[word][0].line - 1]
    assert "SGD, rate 0.5, 40 x" in found["step"][1]
    assert "[16, 8] → [16, 2], training mode" in found["model"][1]


def test_what_is_counted_of_some_steps_is_told_so():
    of_all = {word: says for word, _, says in steps_of(run(code()))}
    assert of_all["model"].endswith("40 x")
    long = run(code(("range(4)", "range(20)")), least=60.0)
    of_some = {word: says for word, _, says in steps_of(long)}
    looked = long.optimizers[0].looked
    assert of_some["model"].endswith(f"{looked} x in the {looked} steps looked at")
    assert of_some["step"].startswith("SGD, rate 0.5, 320 x")


def at(folder, text, *words):
    """Lines of a script on which something of a step happens."""
    file = folder / "train.py"
    file.write_text(text)
    lines = text.splitlines()
    return [Line(str(file), 1 + next(i for i, t in enumerate(lines) if w in t)) for w in words]


def step(data, emptied, back, stepped):
    optimizer = OptimizerSeen("SGD", None, 1, place=stepped, zeroed=emptied, backward=back)
    loaders = {1: LoaderSeen(data, None, "Random")}
    return ScriptRun(optimizers=[optimizer], losses={back: LossSeen(back)}, loaders=loaders)


WORDS = ("in loader", "opt.zero_grad()", "loss.backward()", "opt.step()")
APART = """\
def go():
    loss.backward()
    opt.step()
for x in loader:
    opt.zero_grad(); go()
"""


@pytest.mark.parametrize(
    ("text", "order"),
    [
        (code((ZERO, ""), (STEP, STEP + ZERO)), ["data", "backward", "step", "zero_grad"]),
        (APART, ["data", "zero_grad", "backward", "step"]),  # of several functions, the usual one
    ],
)
def test_a_step_is_told_in_the_order_of_its_lines_where_they_have_one(text, order, tmp_path):
    places = at(tmp_path, text, *WORDS)
    seen = step(*places)
    assert in_order(seen) == (text != APART)
    assert [part.word for part in steps_of(seen)] == order
    assert not in_order(step(Line("another.py", 1), *places[1:]))
    (tmp_path / "train.py").unlink()
    assert not in_order(seen)


def test_the_step_that_a_scheduler_makes_when_it_is_made_is_none_of_a_step(tmp_path):
    text = code((SETUP, RATES), (STEP, f"{STEP}        sched.step()\n"))
    made, stepped = at(tmp_path, text, "ExponentialLR(", "sched.step()")
    seen = ScriptRun(scheduled=Counter({("ExponentialLR", made): 1, ("ExponentialLR", stepped): 9}))
    assert [(part.place, part.says) for part in steps_of(seen)] == [(stepped, "ExponentialLR, 9 x")]


def test_schedulers_and_clipping_have_lines_of_their_own():
    words = {word for word, _, _ in steps_of(run(code(*FAULTY["dwindling-rate"])))}
    assert "scheduler" in words
    says = {w: s for w, _, s in steps_of(run(code(*FAULTY["clipped-steps"])))}
    assert says["clipping"].startswith("norm to 0.0001")


def test_what_no_product_knows_is_still_refused():
    with pytest.raises(TypeError, match="got a value of type ScriptRun"):
        report.text(run(code()))
