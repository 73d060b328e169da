"""Scripts in processes of their own."""

import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from sigmascope.diagnosis.rules.representations import UNRELATED_TARGETS
from sigmascope.diagnosis.scripts import running
from sigmascope.diagnosis.scripts.interventions import ZeroGradients
from sigmascope.diagnosis.scripts.running import Job, Outcome, Script, program_of_run, run_here
from tests.diagnosis.scripts.loops import AGAIN, BACK, LOSS, SETUP, STEP, ZERO, code
from tests.diagnosis.scripts.test_rules import run


def job(tmp_path, text, *, name="train.py", **how):
    (tmp_path / name).write_text(text)
    script = Script(str(tmp_path / name), how.pop("arguments", ()), str(tmp_path))
    return Job(script, how.pop("steps", 12), how.pop("seconds", 20), output="/dev/null", **how)


@pytest.mark.parametrize(("epochs", "most", "made"), [(4, 12, 12), (1, 100, 16)])
def test_a_script_is_run_for_its_first_steps_or_ends_by_itself(
    runner, tmp_path, epochs, most, made
):
    run = runner.run(job(tmp_path, code(("range(4)", f"range({epochs})")), steps=most)).run
    assert (run.steps, run.stopped, run.error) == (made, made == most, None)
    assert run.main.place.says.startswith("train.py:")


def test_the_network_is_looked_at_where_there_is_time_for_it(runner, tmp_path):
    text = code(("model(x), y)", "model(x).softmax(1), y)"))
    found = runner.run(job(tmp_path, text, network=10.0))
    assert (found.unread, found.run.step) == ("", None)
    assert "softmax-in-the-loss" in [f.name for f in found.findings]
    assert runner.run(job(tmp_path, text)).findings == ()


OWN = code((STEP, f"{STEP}        {{}}['mine']\n"))
NO_GRADIENT = "element 0 of tensors does not require grad and does not have a grad_fn"
LEFT = "import os\nos._exit(7)\n"
BY_THREAD = "import os, threading as t, time\n"
BY_THREAD += "t.Thread(target=lambda: os._exit(7)).start(); time.sleep(60)\n"
KILLED = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.mark.parametrize(
    ("text", "bare", "error"),
    [
        (OWN, False, ("KeyError", "'mine'")),
        (OWN, True, ("KeyError", "'mine'")),
        # which comes through what watches, of which nothing is shown
        (code((BACK, "        loss.detach().backward()\n")), False, ("RuntimeError", NO_GRADIENT)),
        ("input()\n" + OWN, False, ("EOFError", "EOF when reading a line")),
        (KILLED, False, ("killed", "signal SIGKILL")),
        (LEFT, False, ("SystemExit", "7")),
        (BY_THREAD, False, ("killed", "exit code 7")),
    ],
)
def test_what_ends_a_script_is_its_own_and_leaves_the_runner_alive(
    runner, tmp_path, text, bare, error
):
    *found, trace = runner.run(job(tmp_path, text, bare=bare)).run.error
    assert tuple(found) == error
    assert ("train.py" in trace) == (text not in (KILLED, LEFT, BY_THREAD))
    assert "sigmascope" not in trace
    assert runner.run(job(tmp_path, code())).run.steps == 12


def test_what_a_script_that_leaves_at_once_has_done_is_not_lost(runner, tmp_path):
    found = runner.run(job(tmp_path, code() + "\nimport os\nos._exit(0)\n", steps=100)).run
    assert (found.steps, found.error) == (64, None)


@pytest.mark.parametrize("hook", ["stdout", "stderr", "excepthook", "__stdout__"])
def test_a_script_that_puts_none_in_the_place_of_streams_and_hooks_leaves_the_runner_alive(
    runner, tmp_path, hook, capfd
):
    runner.run(job(tmp_path, code() + f"\nimport sys\nsys.{hook} = None\n"))
    assert runner.run(job(tmp_path, code())).run.steps == 12
    assert "Traceback" not in capfd.readouterr().err


def test_arguments_and_folder_are_those_that_were_given(runner, tmp_path):
    text = "import sys, pathlib\npathlib.Path('said').write_text(' '.join(sys.argv[1:]))\n" + code()
    runner.run(job(tmp_path, text, arguments=("--lr", "3")))
    assert (tmp_path / "said").read_text() == "--lr 3"


def test_no_search_for_garbage_goes_through_what_is_loaded_for_all_scripts(runner, tmp_path):
    left = "import gc\nwith open('left', 'w') as out: print(len(gc.get_objects()), file=out)\n"
    runner.run(job(tmp_path, left + code()))
    assert int((tmp_path / "left").read_text()) < 50_000  # of hundreds of thousands


def test_files_beside_a_script_are_found_and_a_module_is_run_by_its_name(runner, tmp_path):
    (tmp_path / "beside.py").write_text("STEPS = 4\n")
    text = code(("range(4)", "range(STEPS)")).replace(
        "import torch\n", "import torch\nfrom beside import STEPS\n", 1
    )
    assert runner.run(job(tmp_path, text)).run.steps == 12
    script = Script("train", (), str(tmp_path))
    assert runner.run(Job(script, 12, 20, output="/dev/null")).run.steps == 12


def test_a_module_that_is_run_elsewhere_is_found_from_here(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "training.py").write_text(code())
    monkeypatch.chdir(tmp_path)
    with running.Runner() as own:
        job = Job(Script("training", (), str(elsewhere)), 12, 20, output="/dev/null")
        found = own.run(job).run
    assert (found.steps, found.error) == (12, None)


def test_the_place_of_an_error_is_a_line_of_the_script_and_not_of_python(runner, tmp_path):
    text = "import json\njson.loads('no')\n" + code()
    assert runner.run(job(tmp_path, text)).run.raised.line == 2


def test_of_locks_and_queues_nothing_is_left(runner, tmp_path):
    text = "import multiprocessing as mp\nfrom multiprocessing import util\n"
    text += (
        "import sys; sys.kept = mp.get_context('spawn').Lock(); print('at', util.get_temp_dir())\n"
        + code()
    )
    output = tmp_path / "printed"
    runner.run(replace(job(tmp_path, text), output=str(output)))
    said = output.read_text()
    assert "leaked" not in said
    assert not Path(said.split()[1]).exists()


def test_finally_and_with_work_when_a_script_is_stopped(runner, tmp_path):
    lines = code().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("for epoch"))
    text = "\n".join([*lines[:at], "try:", *(f"  {line}" for line in lines[at:]),
                      "finally:", "    open('closed', 'w').close()"])  # fmt: skip
    runner.run(job(tmp_path, text))
    assert (tmp_path / "closed").exists()


@pytest.mark.slow
def test_a_script_that_hangs_is_ended(runner, tmp_path):
    text = "import time\n" + code((STEP, f"{STEP}        time.sleep(600)\n"))
    start = time.monotonic()
    found = runner.run(job(tmp_path, text, seconds=1, start=1))
    assert found.late
    assert found.run.steps == 1
    assert time.monotonic() - start < 30


HANGS = f"""
import time
class Slow(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
    def forward(self, x):
        for _ in range(0 if torch.is_grad_enabled() else {{}}):
            try:
                time.sleep(600)
            except KeyboardInterrupt:
                if {{}} == 1:
                    raise
        return self.net(x)
model = Slow(model)
{AGAIN}
"""


@pytest.mark.slow
@pytest.mark.parametrize("asked", [1, 9])  # times that it is asked to end, before it does
def test_what_was_seen_is_kept_where_the_network_takes_too_long(runner, tmp_path, asked):
    text = code((SETUP, HANGS.format(asked, asked)))
    found = runner.run(job(tmp_path, text, seconds=1, start=1, network=1))
    assert (found.run.steps, found.late) == (12, True)
    assert "time" in found.unread


def test_what_a_script_starts_ends_with_it(runner, tmp_path):
    text = "import subprocess\nopen('pid', 'w').write(str(subprocess.Popen(['sleep', '60']).pid))\n"
    runner.run(job(tmp_path, text + code()))
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError("it lives")


def test_an_intervention_changes_what_it_is_meant_to(runner, tmp_path):
    text = code((ZERO, ""))
    healthy = runner.run(job(tmp_path, code())).run
    cured = runner.run(job(tmp_path, text, intervention=ZeroGradients())).run
    faulty = runner.run(job(tmp_path, text)).run
    assert cured.loss.values == healthy.loss.values
    assert faulty.loss.values != healthy.loss.values


def test_other_seeds_give_other_runs_and_the_same_the_same(runner, tmp_path):
    losses = [runner.run(job(tmp_path, code(), seed=seed)).run.loss.values for seed in (0, 1, 0, 1)]
    assert losses[0] == losses[2] != losses[1] == losses[3]


def test_the_weights_of_a_program_are_those_before_the_first_step():
    program = program_of_run(run(code(), recorded=True))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch.randn(256, 8)
        assert torch.equal(program.model[0].weight, torch.nn.Linear(8, 16).weight)


def test_in_this_process_arguments_and_paths_are_given_back(tmp_path):
    import sys

    before = list(sys.argv), list(sys.path)
    (tmp_path / "a.py").write_text(code())
    with torch.random.fork_rng():
        assert run_here(Job(Script(str(tmp_path / "a.py"), ("x",)), 10, 20)).steps == 10
    assert (list(sys.argv), list(sys.path)) == before


MAPPED = f"""
class Own(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
    def forward(self, x, labels):
        out = self.net(x)
        return nn.functional.cross_entropy(out, labels), out
model = Own(model)
{AGAIN}
"""


def test_of_a_model_that_needs_labels_by_name_it_is_told_that_it_needs_them(runner, tmp_path):
    text = code((SETUP, MAPPED), (LOSS, "model(x=x, labels=y)[0]"))
    found = runner.run(job(tmp_path, text, network=10.0))
    assert found.run.steps == 12
    assert "labels" in found.unread


def test_a_fault_of_ours_is_told_as_ours(runner, tmp_path):
    with pytest.raises(RuntimeError, match="could not be watched"):
        runner.run(replace(job(tmp_path, code()), output=str(tmp_path / "not" / "there")))
    assert runner.run(job(tmp_path, code())).run.steps == 12


def test_another_text_is_run_in_the_place_of_a_file_that_stays_as_it_is(runner, tmp_path):
    beside = "import train\nprint(train.__file__)\n"
    given = replace(job(tmp_path, beside), source=code(("range(4)", "range(1)")), steps=100)
    assert runner.run(given).run.steps == 16
    assert (tmp_path / "train.py").read_text() == beside


@pytest.mark.parametrize("mixed", [False, True])
def test_targets_that_fresh_samples_are_seen_to_tell_are_not_unrelated(mixed, monkeypatch):
    """Where the network's own diagnosis has no power to say so, or too little time."""
    mixes = ("(X, Y)", "(X, Y[torch.randperm(256)])") if mixed else ("", "")
    seen = run(code(mixes, ("range(4)", "range(1)")), recorded=True)
    told = SimpleNamespace(findings=(UNRELATED_TARGETS.finding("0", "warning", (), ""),))
    monkeypatch.setattr(running, "diagnose", lambda *_, **__: told)
    found = running._with_network(Outcome(seen), 1.0)
    assert [f.name for f in found.findings] == [UNRELATED_TARGETS.name] * mixed
