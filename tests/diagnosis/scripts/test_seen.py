from sigmascope.diagnosis.scripts.seen import Line, LossSeen, OptimizerSeen, ScriptRun


def test_a_place_says_its_file_and_line_and_has_its_text(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("x = 1\n    y = 2\n")
    place = Line(str(file), 2)
    assert (place.says, place.text) == ("a.py:2", "y = 2")


def test_the_main_optimizer_steps_most_and_its_loss_is_followed():
    here, there = Line("a.py", 1), Line("a.py", 2)
    few, most = (
        OptimizerSeen("SGD", None, 1, backward=here),
        OptimizerSeen("Adam", None, 1, backward=there),
    )
    few.steps, most.steps = 3, 9
    run = ScriptRun(optimizers=[few, most])
    run.losses = {here: LossSeen(here, [1.0] * 9), there: LossSeen(there, [2.0])}
    assert run.main is most
    assert run.loss is run.losses[there]
    most.backward = None  # of whose loss nothing is known
    assert run.loss is run.losses[here]
    assert ScriptRun().main is ScriptRun().loss is None
