"""What proves a mistake is the same script with one thing changed."""

import json
import math

import pytest

from sigmascope import report
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate
from sigmascope.diagnosis.rules.dependences import RANDOM_EVALUATION
from sigmascope.diagnosis.rules.representations import DEAD_UNITS, LOST_INPUTS
from sigmascope.diagnosis.rules.training import RATE_TOO_HIGH, RATE_TOO_LOW
from sigmascope.diagnosis.rules.weights import FROZEN_LAYER
from sigmascope.diagnosis.scripts import Attempt, diagnose_script
from sigmascope.diagnosis.scripts.diagnosing import _asked, _Bench, _fault, _judged, _paired
from sigmascope.diagnosis.scripts.observer import Observer
from sigmascope.diagnosis.scripts.rules import SORTED_CLASSES
from sigmascope.diagnosis.scripts.running import Job, Outcome, Runner, Script, run_here
from sigmascope.diagnosis.scripts.seen import Called, Line, LossSeen, OptimizerSeen, ScriptRun
from tests.diagnosis.scripts.loops import FAULTY, code
from tests.sampling import some


def diagnosed(tmp_path, text, **how):
    (tmp_path / "train.py").write_text(text)
    return diagnose_script(str(tmp_path / "train.py"), output="/dev/null", **{"seconds": 20, **how})


@pytest.fixture(scope="module")
def modes(tmp_path_factory):
    """Batch normalisation with old statistics, of inputs that are far from them."""
    changes = (*FAULTY["evaluation-mode"], ("torch.randn(256, 8)", "50 * torch.randn(256, 8)"))
    return diagnosed(tmp_path_factory.mktemp("modes"), code(*changes))


def test_a_cause_that_an_intervention_cures_is_told_with_how_far_it_came(modes):
    found = next(f for f in modes.findings if f.name == "evaluation-mode")
    (attempt,) = (a for a in modes.attempts if a.name == "training-mode")
    assert attempt.helps == (attempt.avoided.low > 0)
    assert found.evidence[-1].estimate == attempt.avoided
    assert f"{attempt.after[0]:.3g}" in found.says


def test_a_loop_that_learns_has_no_error(tmp_path):
    found = diagnosed(tmp_path, code())
    assert not [f for f in found.findings if f.severity != "note"]
    assert found.attempts == ()


def test_a_rate_at_fault_is_proved_by_another(tmp_path):
    found = diagnosed(tmp_path, code(("lr=0.5", "lr=1e-3")))
    assert found.findings[0].name == "rate-too-low"
    assert found.cures()[0].name == "rate x 100"
    assert found.cures()[0].halves


@pytest.mark.slow
def test_a_rate_that_changes_nothing_is_tried_with_one_that_changes_a_hundredth(tmp_path):
    found = diagnosed(tmp_path, code(("lr=0.5", "lr=1e-6")))
    assert found.findings[0].name == "rate-too-low"
    factors = [float(a.name.split(" x ")[1]) for a in found.attempts if a.name.startswith("rate x")]
    assert max(factors) >= 1e3
    assert found.cures()[0].name == f"rate x {max(factors):g}"


@pytest.mark.slow
def test_what_a_change_alone_can_tell_is_told(tmp_path):
    line = "[nn.init.constant_(p, -1.0) for p in model.parameters()]"
    found = diagnosed(tmp_path, code(("# setup", line), ("range(4)", "range(2)")), seconds=60)
    assert "unsuited-weights" in [f.name for f in found.findings if f.severity == "note"]
    (attempt,) = (a for a in found.attempts if a.name == "redrawn")
    assert attempt.halves


@pytest.mark.slow
def test_layers_that_are_frozen_are_proved_to_be_the_cause(tmp_path):
    frozen = "[p.requires_grad_(False) for p in model[:2].parameters()]"
    changes = ("# setup", frozen), ("X[:, 0] + X[:, 1] > 0", "X.square().sum(1) > 8")
    found = diagnosed(tmp_path, code(*changes), steps=64)
    assert [a.name for a in found.attempts if a.name == "unfrozen"]
    told = next(f for f in found.findings if f.name == "frozen-layer")
    assert told.evidence[-1].form == "unfrozen"


def test_text_json_and_rows_have_what_was_found(modes):
    text = report.text(modes)
    for words in ("evaluation-mode", "What the script does in a step", "with one thing changed"):
        assert words in text
    form = json.loads(json.dumps(report.json_form(modes), allow_nan=False))
    assert form["schema"] == "sigmascope/script/2"
    assert form["attempts"][0]["name"] == modes.attempts[0].name
    assert [f["name"] for f in form["findings"]] == report.table(modes)["name"]


def test_lines_to_change_are_a_diff_of_the_script(tmp_path):
    found = diagnosed(tmp_path, code(*FAULTY["zeroed-before-step"]), seconds=20)
    (diff,) = found.diffs.values()
    assert diff.startswith("--- a/train.py")
    assert "+        opt.zero_grad()" in diff


@pytest.mark.parametrize(
    ("text", "words"),
    some(
        [
            ("import nothing_of_that_name\n", "ModuleNotFoundError.*script's own"),
            ("input('name? ')\n", "input.*behind `--`"),
            ("print('no training')\n", "no optimizer of torch stepped"),
            ("raise SystemExit(3)\n", "SystemExit"),
            ("this is no python\n", "SyntaxError"),
        ]
    ),
)
def test_a_script_that_does_not_train_is_refused_with_how_far_it_came(tmp_path, text, words):
    with pytest.raises(Refusal, match=f"(?s)train.py.*{words}"):
        diagnosed(tmp_path, text)


@pytest.mark.parametrize(
    "how", [{"steps": 3}, {"seconds": 0.0}, {"seeds": 1}, {"seeds": 9}, {"seconds": math.nan}]
)
def test_numbers_that_make_no_sense_are_refused(tmp_path, how):
    with pytest.raises(Refusal, match=next(iter(how))):
        diagnosed(tmp_path, code(), **how)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(Refusal, match=r"nowhere\.py"):
        diagnose_script(str(tmp_path / "nowhere.py"))


def test_one_seed_proves_nothing_and_gains_that_differ_are_no_cure():
    assert _paired([0.5]).low == -math.inf
    assert _paired([0.5, 0.5]).low == pytest.approx(0.5)
    assert _paired([0.5, 0.5, 0.5]).low == pytest.approx(0.5)
    assert _paired([0.5, -0.4, 0.6]).low < 0 < _paired([0.5, 0.45, 0.6]).low


def test_less_than_half_as_far_is_told_from_nearly_as_far():
    how = _paired([0.5, 0.5])
    assert Attempt("a", "b", (2.0, 1.9), (0.1, 0.1), 2.3, how).halves
    assert Attempt("a", "b", (math.inf,), (0.1,), 2.3, how).halves
    assert not Attempt("a", "b", (0.3, 0.4), (0.1, 0.1), 2.3, how).halves
    assert not Attempt("a", "b", (2.5,), (2.4,), 2.3, how).halves


@pytest.mark.parametrize(("later", "judged"), [(0.1, True), (0.15, True), (0.16, False)])
def test_a_rate_that_warms_up_is_not_judged_to_be_low(later, judged):
    place = Line("a.py", 1)
    main = OptimizerSeen("SGD", None, 1, backward=place, steps=9, rates=[0.1, later])
    run = ScriptRun(optimizers=[main], losses={place: LossSeen(place, [1.0] * 9)})
    names = [one.name for _, one, _ in _asked(Outcome(run), (), set())]
    assert ("rate x 10" in names) == ("rate x 100" in names) == judged
    assert "rate x 0.1" in names


@pytest.mark.parametrize("turned", [{}, {Line("a.py", 2): (0, 9)}])
def test_of_a_policy_a_loss_does_not_tell_how_far_it_came(turned):
    place = Line("a.py", 1)
    main = OptimizerSeen("SGD", None, 1, backward=place, steps=9, rates=[0.1])
    losses = {place: LossSeen(place, [1.0] * 9)}
    run = ScriptRun(optimizers=[main], losses=losses, turned=turned)
    assert bool([*_asked(Outcome(run), (), set())]) == (not turned)


TWO_PHASES = """
import torch
from torch import nn

torch.manual_seed(0)
X = torch.randn(256, 8)
net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), 0.01)


def train(y, epochs):
    for _ in range(epochs):
        for i in range(0, 256, 32):
            loss = nn.functional.cross_entropy(net(X[i : i + 32]), y[i : i + 32])
            opt.zero_grad()
            loss.backward()
            opt.step()


train((X[:, 0] > 0).long(), 6)
net[2] = nn.Linear(32, 5)
# again
train((4 * torch.rand(256)).long(), 10)
"""
AGAIN = "opt = torch.optim.Adam(net.parameters(), 0.01)"


def test_what_goes_wrong_behind_the_steps_that_are_compared_is_found_and_proved(tmp_path):
    found = diagnosed(tmp_path, TWO_PHASES, steps=40)
    (told,) = (f for f in found.findings if f.name == "other-parameters")
    assert told.severity == "warning"
    assert found.run.early.steps == 40
    assert found.run.steps == 128
    assert [len(a.values) for a in found.attempts if a.name == "all-parameters"] == [128]


@pytest.mark.slow
def test_a_second_phase_that_is_made_for_is_left_in_peace(tmp_path):
    found = diagnosed(tmp_path, TWO_PHASES.replace("# again", AGAIN), steps=40)
    assert [f.name for f in found.findings if f.severity != "note"] == []


@pytest.mark.slow
def test_one_loss_of_two_that_is_not_learned_beside_the_other_is_told_by_a_change(tmp_path):
    both = "nn.functional.mse_loss(model(x)[:, 0], 1e3 * x[:, 0]) + nn.functional.cross_entropy("
    found = diagnosed(tmp_path, code(("nn.functional.cross_entropy(", both), ("lr=0.5", "lr=1e-7")))
    (attempt,) = (a for a in found.attempts if a.name.startswith("mse_loss x"))
    assert attempt.first == pytest.approx(0.7, abs=0.2)  # the other loss is what it is judged by


@pytest.mark.slow
def test_a_loss_that_is_a_sum_is_tried_with_the_rate_of_a_mean(tmp_path):
    summed = ("cross_entropy(model(x), y)", "mse_loss(model(x), 3 * x[:, :2], reduction='sum')")
    found = diagnosed(tmp_path, code(summed, ("lr=0.5", "lr=0.2")))
    assert "summed-loss" in [f.name for f in found.findings]
    assert 1 / 32 in [float(a.name.split(" x ")[1]) for a in found.attempts if " x " in a.name]


@pytest.mark.slow
def test_a_loss_that_should_be_large_is_proved_by_steps_the_other_way(tmp_path):
    share = "(model(x).softmax(1) * nn.functional.one_hot(y, 2)).sum(1).mean()"
    found = diagnosed(tmp_path, code(("nn.functional.cross_entropy(model(x), y)", share)))
    (attempt,) = (a for a in found.attempts if a.name == "reversed-steps")
    assert attempt.helps
    assert attempt.after[0] > 0.7 > attempt.before[0]
    assert found.findings[0].name == "reversed-loss"


@pytest.mark.parametrize(("steps", "tried"), [(8, True), (7, False)])
def test_time_is_shared_out_and_what_shows_no_habit_is_not_tried(
    steps, tried, tmp_path, monkeypatch
):
    (tmp_path / "train.py").write_text("")
    jobs = []

    def ran(self, job):
        jobs.append(job)
        seen = OptimizerSeen("SGD", None, 1, steps=steps, rates=[0.1] * steps)
        loss = LossSeen(None, values=[1.0] * steps)
        counts = {"steps": steps, "backwards": steps}
        return Outcome(ScriptRun(**counts, optimizers=[seen], losses={None: loss}))

    monkeypatch.setattr(Runner, "run", ran)
    diagnose_script(str(tmp_path / "train.py"), seconds=60)
    assert (jobs[0].seconds, jobs[0].least, jobs[0].start) == (15, 10, 30)
    assert (len(jobs) > 1) == tried


SCALED = (
    ("(X[:, 0] + X[:, 1] > 0).long()", "3000 + 500 * X[:, :1]"),
    ("nn.Linear(16, 2)", "nn.Linear(16, 1)"),
    ("cross_entropy", "mse_loss"),
    ("torch.optim.SGD(model.parameters(), lr=0.5)", "torch.optim.Adam(model.parameters())"),
)


def test_targets_out_of_scale_are_proved_by_scaled_ones(tmp_path):
    found = diagnosed(tmp_path, code(*SCALED))
    told = found.findings[0]
    assert told.name == "unscaled-targets"
    assert told.severity == "error"
    assert told.evidence[-1].form == "scaled-targets"


@pytest.mark.slow
def test_shapes_that_spread_are_proved_by_fitted_ones(tmp_path):
    text = code(*SCALED, ("3000 + 500 * X[:, :1]", "X[:, 0] - X[:, 1].square()"))
    found = diagnosed(tmp_path, text.replace("parameters())", "parameters(), lr=1e-2)"))
    told = found.findings[0]
    assert told.name == "spread-shapes"
    assert told.evidence[-1].form == "fitted-shapes"


WORDS = """
words = torch.randn(1000)
X = torch.randint(0, 1000, (1024, 6))
Y = (words[X].sum(1) > 0).long()
model = nn.Sequential(nn.Embedding(1000, 16), nn.Flatten(), nn.LayerNorm(96), nn.Linear(96, 2))
opt = {}
data = torch.utils.data.TensorDataset(X, Y)
loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
"""


NOISED = """
import torch
from torch import nn

torch.manual_seed(0)
scale = torch.linspace(0, 1, 20)
net = nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 8))
opt = torch.optim.Adam(net.parameters(), 1e-2)
X = torch.randn(512, 8)


def when(n):
    return torch.randint(0, 20, (n,))


for _ in range(200):
    t = when(512)
    target = X * scale[t][:, None]
    t = {}
    loss = (net(torch.cat([X, t[:, None] / 20], 1)) - target).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(("drawn", "told"), [("when(512)", True), ("t", False)])
@pytest.mark.slow
def test_what_is_drawn_twice_is_told_where_one_draw_comes_farther(drawn, told, tmp_path):
    found = diagnosed(tmp_path, NOISED.format(drawn), steps=200)
    assert ("drawn-twice" in [f.name for f in found.findings]) == told
    assert ("one-draw" in [a.name for a in found.attempts]) == told


REMEMBERED = """
import torch
from torch import nn

torch.manual_seed(0)
net, head = nn.GRU(1, 16, batch_first=True), nn.Linear(16, 1)
opt = torch.optim.Adam([*net.parameters(), *head.parameters()], 1e-2)
signs, state = torch.randn(32, 201, 1).sign(), None
for k in range(1, 201):  # what is shown at the end of a batch is asked for in the next one
    sign = signs[:, k - 1 : k + 1].repeat_interleave(torch.tensor([7, 1]), 1)
    out, {} = net(sign * (torch.arange(8) == 7)[:, None], {})
    loss = (head(out) - sign).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.slow
def test_a_state_that_is_forgotten_is_told_where_a_carried_one_comes_farther(tmp_path):
    found = diagnosed(tmp_path, REMEMBERED.format("_", "None"), steps=120)
    (told,) = (f for f in found.findings if f.name == "forgotten-state")
    assert told.evidence[-1].form == "carried-state"
    kept = REMEMBERED.format("state", "None if state is None else state.detach()")
    assert "forgotten-state" not in [f.name for f in diagnosed(tmp_path, kept, steps=120).findings]


DIRECTED = """
import torch
from torch import nn

torch.manual_seed(0)
X, edges = torch.randn(200, 8), torch.stack([torch.arange(200), (torch.arange(200) + 7) % 200])
Y = (X[edges[0]].sum(1) > 0).long()[torch.argsort(edges[1])]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 2)

    def forward(self, x, edges):
        a, b = edges
        return self.lin(torch.zeros_like(x).index_add_(0, {}, x[{}]))


net = Net()
opt = torch.optim.Adam(net.parameters(), 0.05)
for _ in range(80):
    loss = nn.functional.cross_entropy(net(X, edges), Y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.slow
def test_edges_that_are_turned_round_are_told_where_the_others_come_farther(tmp_path):
    found = diagnosed(tmp_path, DIRECTED.format("a", "b"))
    assert found.findings[0].name == "reversed-edges"
    right = diagnosed(tmp_path, DIRECTED.format("b", "a"))
    assert "reversed-edges" not in [f.name for f in right.findings]


@pytest.mark.slow
def test_decay_in_the_gradient_of_adam_that_harms_embeddings(tmp_path):
    decayed = "torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=0.03)"
    found = diagnosed(tmp_path, code(("# setup", WORDS.format(decayed))), steps=100)
    names = [f.name for f in found.findings]
    assert "harmful-decay" in names
    assert "strong-weight-decay" not in names
    usual = "torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)"
    again = diagnosed(tmp_path, code(("# setup", WORDS.format(usual))), steps=100)
    assert "harmful-decay" not in [f.name for f in again.findings]


def test_what_another_finding_brings_comes_behind_it_however_sure():
    one, two = Estimate.exactly(0.5), (1.0, 1.0, 1.0)
    proof = Attempt("rate x 0.1", "a lower rate", two, (0.1,) * 3, 1.0, one)
    cause = SORTED_CLASSES.finding("x", "warning", (), "sorted")
    found = [f.name for f in _judged([cause], {RATE_TOO_HIGH.name: [proof]}, ScriptRun(steps=40))]
    assert found == ["one-class-batches", "rate-too-high"]
    hint = SORTED_CLASSES.finding("x", "note", (), "sorted")
    found = [f.name for f in _judged([hint], {RATE_TOO_HIGH.name: [proof]}, ScriptRun(steps=40))]
    assert found == ["rate-too-high", "one-class-batches"]
    dead = DEAD_UNITS.finding("a", "note", (), "dead"), LOST_INPUTS.finding("b", "warning", (), "")
    found = [f.name for f in _judged(dead[::-1], {}, ScriptRun(steps=40))]
    assert found == ["dead-units", "lost-inputs"]


def test_of_a_lower_and_a_higher_rate_that_both_help_one_does_by_chance():
    def tried(factor, gain):
        return Attempt(f"rate x {factor}", "", (1.0,), (0.5,), 2.0, Estimate.exactly(gain))

    both = {RATE_TOO_HIGH.name: [tried(0.1, 0.05)], RATE_TOO_LOW.name: [tried(10, 0.3)]}
    assert [f.name for f in _judged([], both, ScriptRun(steps=40))] == ["rate-too-low"]
    both[RATE_TOO_LOW.name] = [tried(10, -0.3)]
    assert [f.name for f in _judged([], both, ScriptRun(steps=40))] == ["rate-too-high"]


def test_draws_that_a_script_asks_for_again_and_again_are_meant():
    found = RANDOM_EVALUATION.finding("(model)", "warning", (), "drawn")
    for repeated, severity in ((True, "note"), (False, "warning")):
        run = ScriptRun(steps=40, modules=[Called("Net", None, repeated=repeated)])
        assert [f.severity for f in _judged([found], {}, run)] == [severity]


def test_what_is_frozen_is_no_fault_of_a_script_that_learns():
    found = FROZEN_LAYER.finding("0.weight", "warning", (), "frozen")
    one = Attempt("unfrozen", "", (0.3,), (0.1,), 1.0, Estimate.exactly(0.2))
    for last, severity in ((0.3, "note"), (0.8, "warning")):
        run = ScriptRun(steps=40, losses={None: LossSeen(None, [1.0] * 8 + [last] * 32)})
        told = _judged([found], {FROZEN_LAYER.name: [one]}, run)
        assert [f.severity for f in told] == [severity]


@pytest.mark.parametrize(("last", "severity"), [(0.3, "warning"), (0.8, "error")])
def test_what_would_bring_a_run_that_learns_farther_is_no_error(last, severity):
    found = RATE_TOO_LOW.finding("(training)", "error", (), "low")
    one = Attempt("rate x 100", "", (last,), (0.01,), 1.0, Estimate.exactly(0.6))
    run = ScriptRun(steps=40, losses={None: LossSeen(None, [1.0] * 8 + [last] * 32)})
    (told,) = _judged([found], {RATE_TOO_LOW.name: [one]}, run)
    assert told.severity == severity


SHARED = """\
import os
torch.distributed.init_process_group("gloo")
assert (os.environ["LOCAL_RANK"], torch.distributed.get_world_size()) == ("0", 1)
model = nn.parallel.DistributedDataParallel(model)
"""


def test_a_script_that_wants_a_launcher_is_started_as_by_one(tmp_path):
    twice = ("(model(x), y)", "(model(x).softmax(1), y)")
    found = diagnosed(tmp_path, code(("# setup", SHARED), twice))
    assert found.script.launched
    assert any("other processes" in why for why in found.unlooked)
    assert not any("network" in why for why in found.unlooked)
    assert [f.name for f in found.findings][:2] == ["softmax-twice", "softmax-in-the-loss"]


SCORED = """\
    model.eval(); hits = []
    with torch.no_grad():
        for a, b in torch.utils.data.DataLoader(data, batch_size=50):
            score = (model(a).argmax(1) == b).float().mean().item(); hits.append(score)
    model.train()
    print("epoch", epoch, "accuracy", {})
"""


@pytest.mark.parametrize(
    ("score", "told"),
    [
        ("score", True),
        ("sum(hits) / len(hits)", False),
        ("hits[0]", False),  # nothing is said of others
        ("sum(hits) / len(hits), 'the last', score", False),
    ],
)
def test_a_score_of_the_last_batch_is_told_from_one_of_all(score, told, tmp_path):
    end = "        opt.step()\n"
    found = diagnosed(tmp_path, code((end, end + SCORED.format(score))))
    assert [f.name for f in found.findings] == ["last-batch-score"] * told
    if told:
        assert found.findings[0].site == "train.py:19"
        assert "6 batches" in found.findings[0].says


class Bare:
    """A runner in which every script ends in the same way."""

    def __init__(self, error=None):
        self.error, self.jobs = error, []

    def run(self, job):
        self.jobs.append(job)
        return Outcome(ScriptRun(error=self.error))


def raised_by_us(tmp_path, monkeypatch, *, at):
    """What comes of a script where an observer fails at a step."""
    own = Observer._looked_at

    def fails(self, *args):
        if self.run.steps >= at:
            raise RuntimeError("a tensor of an odd kind")
        return own(self, *args)

    monkeypatch.setattr(Observer, "_looked_at", fails)
    (tmp_path / "train.py").write_text(code())
    script = Script(str(tmp_path / "train.py"))
    return script, Outcome(run_here(Job(script, 12, 20)))


@pytest.mark.parametrize(("at", "error"), [(0, None), (5, None), (5, ("KeyError", "theirs", ""))])
def test_an_error_of_our_own_is_not_told_as_the_script_s(tmp_path, monkeypatch, at, error):
    script, first = raised_by_us(tmp_path, monkeypatch, at=at)
    assert first.run.crossed.startswith("observer.py:")
    bare = Bare(error)
    if at:
        (told,) = _fault(bare, script, first)
        assert first.run.crossed in told
        assert first.run.error is None
    else:
        with pytest.raises(RuntimeError, match="odd kind"):
            _fault(bare, script, first)
    assert [job.bare for job in bare.jobs] == [True]


def test_an_error_that_comes_without_us_too_is_the_script_s(tmp_path, monkeypatch):
    script, first = raised_by_us(tmp_path, monkeypatch, at=5)
    assert _fault(Bare(first.run.error), script, first) == ()
    assert first.run.error is not None


@pytest.mark.parametrize("error", [None, ("AttributeError", "no such name", "")])
def test_lines_with_which_a_script_ends_are_not_shown(tmp_path, error):
    (tmp_path / "train.py").write_text(code())
    script, bare = Script(str(tmp_path / "train.py")), Bare(error)
    bench = _Bench(bare, script, Outcome(ScriptRun(steps=9, seconds=1.0)), 9, 1.0, math.inf, 3)
    before = code().splitlines(keepends=True)
    made = {"it": (tmp_path / "train.py", before, [*before, "opt.zero()\n"])}
    assert list(bench.checked(made)) == ([] if error else ["it"])
    assert bare.jobs[0].source == code() + "opt.zero()\n"
