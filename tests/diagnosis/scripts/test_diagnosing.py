"""What proves a mistake is the same script with one thing changed."""

import json
import math
from dataclasses import replace

import pytest

from sigmascope import report
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate
from sigmascope.diagnosis.rules.dependences import RANDOM_EVALUATION
from sigmascope.diagnosis.rules.representations import DEAD_UNITS, LOST_INPUTS
from sigmascope.diagnosis.rules.sequences import READ_PADDING
from sigmascope.diagnosis.rules.training import RATE_TOO_HIGH, RATE_TOO_LOW, STUCK_TRAINING
from sigmascope.diagnosis.rules.weights import FROZEN_LAYER
from sigmascope.diagnosis.scripts import Attempt, diagnose_script
from sigmascope.diagnosis.scripts.diagnosing import _asked, _Bench, _fault, _judged, _paired
from sigmascope.diagnosis.scripts.observer import Observer
from sigmascope.diagnosis.scripts.presentation import verdict
from sigmascope.diagnosis.scripts.rules import SORTED_CLASSES
from sigmascope.diagnosis.scripts.running import Job, Outcome, Runner, Script, run_here
from sigmascope.diagnosis.scripts.seen import Called, Line, LossSeen, OptimizerSeen, ScriptRun
from tests.diagnosis.scripts.loops import FAULTY, LOSS, code
from tests.sampling import some

pytestmark = pytest.mark.usefixtures("one_process")

FEW = {"steps": 32, "seeds": 2}


def diagnosed(tmp_path, text, **how):
    (tmp_path / "train.py").write_text(text)
    return diagnose_script(str(tmp_path / "train.py"), output="/dev/null", **{"seconds": 20, **how})


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Batch normalisation with old statistics, of inputs that are far from them.

    What is found, what is told early with the steps that were made until then, and all steps.
    """
    changes = (*FAULTY["evaluation-mode"], ("torch.randn(256, 8)", "50 * torch.randn(256, 8)"))
    told, steps = [], []
    how = {
        "early": lambda f: told.append((f, len(steps))),
        "progress": lambda *s: steps.append(s),
    } | FEW
    return diagnosed(tmp_path_factory.mktemp("modes"), code(*changes), **how), told, steps


@pytest.fixture(scope="module")
def modes(course):
    return course[0]


def test_a_cause_that_an_intervention_cures_is_told_with_how_far_it_came(modes):
    found = next(f for f in modes.findings if f.name == "evaluation-mode")
    (attempt,) = (a for a in modes.attempts if a.name == "training-mode")
    assert attempt.helps == (attempt.avoided.low > 0)
    assert found.evidence[-1].estimate == attempt.avoided
    assert f"{attempt.after[0]:.3g}" in found.says


def test_what_the_first_run_shows_is_told_before_the_others(course):
    found, told, steps = course
    ((first, at),) = told
    assert {f.name for f in first} & {f.name for f in found.findings}
    assert [words for words, *_ in steps[:at]] == ["the script as it is"]
    tried = [words.removeprefix("again, ") for words, *_ in steps[at:-1]]
    assert tried
    assert {a.says for a in found.attempts} <= {*tried}
    assert steps[-1] == ("done", 1, 1)


def test_a_loop_that_learns_has_no_error(tmp_path):
    found = diagnosed(tmp_path, code())
    assert not [f for f in found.findings if f.severity != "note"]
    assert found.attempts == ()


@pytest.mark.slow
def test_a_rate_that_changes_nothing_is_tried_with_one_that_changes_a_hundredth(tmp_path):
    found = diagnosed(tmp_path, code(("lr=0.5", "lr=1e-6")))
    assert found.findings[0].name == "rate-too-low"
    factors = [float(a.name.split(" x ")[1]) for a in found.attempts if a.name.startswith("rate x")]
    assert max(factors) >= 1e3
    assert found.cures()[0].name == f"rate x {max(factors):g}"


def test_text_json_rows_and_lines_to_change_have_what_was_found(modes):
    diff = modes.diffs["evaluation-mode"]
    assert diff.startswith("--- a/train.py")
    assert "+        model.train()" in diff
    text = report.text(modes)
    for words in ("evaluation-mode", "What the script does in a step", "with one thing changed"):
        assert words in text
    form = json.loads(json.dumps(report.json_form(modes), allow_nan=False))
    assert form["schema"] == "sigmascope/script/2"
    assert form["attempts"][0]["name"] == modes.attempts[0].name
    assert [f["name"] for f in form["findings"]] == report.table(modes)["name"]


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
def test_numbers_that_make_no_sense_and_files_that_are_not_there_are_refused(tmp_path, how):
    with pytest.raises(Refusal, match=next(iter(how))):
        diagnosed(tmp_path, code(), **how)
    with pytest.raises(Refusal, match=r"nowhere\.py"):
        diagnose_script(str(tmp_path / "nowhere.py"))


def test_one_seed_proves_nothing_and_gains_that_differ_are_no_cure():
    assert _paired([0.5]).low == -math.inf
    assert _paired([0.5, 0.5]).low == pytest.approx(0.5)
    assert _paired([0.5, 0.5, 0.5]).low == pytest.approx(0.5)
    assert _paired([0.5, -0.4, 0.6]).low < 0 < _paired([0.5, 0.45, 0.6]).low


def test_what_there_was_no_time_to_try_again_is_told_as_that():
    (told,) = _judged([SLOW], {LOW: [UNTOLD]}, ScriptRun(steps=40, **STAYED))
    assert "0.001, not 0.8" in told.says
    assert "time" in told.says
    assert verdict(UNTOLD) == "tried once"
    assert verdict(replace(UNTOLD, avoided=_paired([0.01]))) == "does not help"


def test_less_than_half_as_far_is_told_from_nearly_as_far():
    halves = lambda before, after: Attempt("a", "b", before, after, 2.3, _paired([0.5, 0.5])).halves
    assert halves((2.0, 1.9), (0.1, 0.1))
    assert halves((math.inf,), (0.1,))
    assert not halves((0.3, 0.4), (0.1, 0.1))
    assert not halves((2.5,), (2.4,))


@pytest.mark.parametrize(
    ("later", "seen", "judged"),
    [
        (0.25, {}, ["rate x 0.1", "rate x 10", "rate x 0.01", "rate x 100"]),
        (0.375, {}, ["rate x 0.1", "rate x 10", "rate x 0.01", "rate x 100"]),
        (0.376, {}, ["rate x 0.1", "rate x 0.01"]),  # one that warms up is not judged to be low
        # of a policy a loss does not tell how far it came, nor of targets that are learned, too
        (0.25, {"turned": {Line("a.py", 2): (0, 9)}}, None),
        (0.25, {"acts": True}, None),
        (0.25, {"ahead": True}, None),
    ],
)
def test_rates_are_tried_where_the_loss_tells_how_far_a_script_came(later, seen, judged):
    place = Line("a.py", 1)
    main = OptimizerSeen("SGD", None, 1, backward=place, steps=9, rates=[0.25, later])
    losses = {place: LossSeen(place, [1.0] * 9)}
    run = ScriptRun(optimizers=[main], losses=losses, **seen)
    names = [one.name for _, one, _ in _asked(Outcome(run), (), set())]
    assert [n for n in names if n.startswith("rate")] == (judged or [])
    assert bool(names) == (judged is not None)


HEAD = "import torch\nfrom torch import nn\n\ntorch.manual_seed(0)\n"
TAIL = "    opt.zero_grad(); loss.backward(); opt.step()\n"
TWO_PHASES = f"""{HEAD}
X = torch.randn(256, 8)
net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), 0.01)
def train(y, epochs):
    for i in [*range(0, 256, 32)] * epochs:
        loss = nn.functional.cross_entropy(net(X[i : i + 32]), y[i : i + 32])
    {TAIL}
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


WORDS = """
words = torch.randn(1000)
X = torch.randint(0, 1000, (1024, 6))
Y = (words[X].sum(1) > 0).long()
model = nn.Sequential(nn.Embedding(1000, 16), nn.Flatten(), nn.LayerNorm(96), nn.Linear(96, 2))
opt = {}
data = torch.utils.data.TensorDataset(X, Y)
loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
"""


NOISED = f"""{HEAD}
scale = torch.linspace(0, 1, 20)
net = nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 8))
opt = torch.optim.Adam(net.parameters(), 1e-2)
X = torch.randn(512, 8)
def when(n):
    return torch.randint(0, 20, (n,))
for _ in range(200):
    t = when(512)
    target = X * scale[t][:, None]
    t = {{}}
    loss = (net(torch.cat([X, t[:, None] / 20], 1)) - target).square().mean()
{TAIL}"""
REMEMBERED = f"""{HEAD}
net, head = nn.GRU(1, 16, batch_first=True), nn.Linear(16, 1)
opt = torch.optim.Adam([*net.parameters(), *head.parameters()], 1e-2)
signs, state = torch.randn(32, 201, 1).sign(), None
for k in range(1, 201):  # what is shown at the end of a batch is asked for in the next one
    sign = signs[:, k - 1 : k + 1].repeat_interleave(torch.tensor([7, 1]), 1)
    out, {{}} = net(sign * (torch.arange(8) == 7)[:, None], {{}})
    loss = (head(out) - sign).square().mean()
{TAIL}"""
DIRECTED = f"""{HEAD}
X, edges = torch.randn(200, 8), torch.stack([torch.arange(200), (torch.arange(200) + 7) % 200])
Y = (X[edges[0]].sum(1) > 0).long()[torch.argsort(edges[1])]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 2)
    def forward(self, x, edges):
        a, b = edges
        return self.lin(torch.zeros_like(x).index_add_(0, {{}}, x[{{}}]))
net = Net()
opt = torch.optim.Adam(net.parameters(), 0.05)
for _ in range(80):
    loss = nn.functional.cross_entropy(net(X, edges), Y)
{TAIL}"""
SCALED = (
    ("(X[:, 0] + X[:, 1] > 0).long()", "3000 + 500 * X[:, :1]"),
    ("nn.Linear(16, 2)", "nn.Linear(16, 1)"),
    ("cross_entropy", "mse_loss"),
    ("torch.optim.SGD(model.parameters(), lr=0.5)", "torch.optim.Adam(model.parameters())"),
)
SPREAD = code(*SCALED, ("3000 + 500 * X[:, :1]", "X[:, 0] - X[:, 1].square()"))
SUMMED = ("cross_entropy(model(x), y)", "mse_loss(model(x), 3 * x[:, :2], reduction='sum')")
SHARE = "(model(x).softmax(1) * nn.functional.one_hot(y, 2)).sum(1).mean()"
STARTED = "[nn.init.constant_(p, -1.0) for p in model.parameters()]"
FROZEN = "[p.requires_grad_(False) for p in model[:2].parameters()]"
DECAYED = "torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=0.03)"
USUAL = "torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)"
HALVES, ANY = (lambda a: a.halves), (lambda a: True)
PROVED = (  # a finding, with the change that proves it, and how far that comes; of which script
    ("rate-too-low", "rate x 100", HALVES, code(("lr=0.5", "lr=1e-3")), FEW),
    ("unscaled-targets", "scaled-targets", HALVES, code(*SCALED), FEW),
    ("unusual-settings", "usual-settings", HALVES,
     code(("SGD(model.parameters(), lr=0.5)", "Adam(model.parameters(), 0.02, eps=10.0)")), FEW),
    ("strong-momentum", "usual-settings", ANY, code(("lr=0.5", "lr=3.0, momentum=0.9999")), {}),
    ("spread-shapes", "fitted-shapes", ANY,
     SPREAD.replace("parameters())", "parameters(), lr=1e-2)"), {}),
    ("reversed-loss", "reversed-steps", lambda a: a.helps and a.after[0] > 0.7 > a.before[0],
     code((LOSS, SHARE)), {}),
    ("unsuited-weights", "redrawn", HALVES,
     code(("# setup", STARTED), ("range(4)", "range(2)")), {"seconds": 60}),
    ("frozen-layer", "unfrozen", ANY,
     code(("# setup", FROZEN), ("X[:, 0] + X[:, 1] > 0", "X.square().sum(1) > 8")), {"steps": 64}),
    ("summed-loss", "rate x 0.03125", ANY, code(SUMMED, ("lr=0.5", "lr=0.2")), {}),
    ("drawn-twice", "one-draw", ANY, NOISED.format("when(512)"), {"steps": 200}),
    ("forgotten-state", "carried-state", ANY, REMEMBERED.format("_", "None"), {"steps": 120}),
    ("reversed-edges", "reversed-edges", ANY, DIRECTED.format("a", "b"), {}),
    ("harmful-decay", None, ANY, code(("# setup", WORDS.format(DECAYED))), {"steps": 100}),
)  # fmt: skip
QUICK = PROVED[:3]
FIRST = (
    "unusual-settings",
    "rate-too-low",
    "unscaled-targets",
    "spread-shapes",
    "reversed-loss",
    "reversed-edges",
)
KEPT = REMEMBERED.format("state", "None if state is None else state.detach()")
UNTOLD = (
    ("drawn-twice", NOISED.format("t"), {"steps": 200}),
    ("forgotten-state", KEPT, {"steps": 120}),
    ("reversed-edges", DIRECTED.format("b", "a"), {}),
    ("harmful-decay", code(("# setup", WORDS.format(USUAL))), {"steps": 100}),
)


@pytest.mark.parametrize(
    ("name", "form", "far", "text", "how"),
    [pytest.param(*r, id=r[0], marks=() if r in QUICK else pytest.mark.slow) for r in PROVED],
)
def test_a_cause_is_proved_by_the_change_that_brings_the_script_farther(
    name, form, far, text, how, tmp_path
):
    found = diagnosed(tmp_path, text, **how)
    names = [f.name for f in found.findings]
    told = found.findings[names.index(name)]
    assert names[0] == name or name not in FIRST
    assert told.severity == "note" or name != "unsuited-weights"
    assert told.severity == "error" or name != "unscaled-targets"
    assert "strong-weight-decay" not in names
    if form is not None:
        assert told.evidence[-1].form == form
        assert all(far(a) for a in found.attempts if a.name == form)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text", "how"), UNTOLD)
def test_where_a_change_brings_it_no_farther_there_is_no_such_cause(name, text, how, tmp_path):
    found = diagnosed(tmp_path, text, **how)
    assert name not in [f.name for f in found.findings]
    assert name != "drawn-twice" or "one-draw" not in [a.name for a in found.attempts]


@pytest.mark.slow
def test_one_loss_of_two_that_is_not_learned_beside_the_other_is_told_by_a_change(tmp_path):
    both = "nn.functional.mse_loss(model(x)[:, 0], 1e3 * x[:, 0]) + nn.functional.cross_entropy("
    found = diagnosed(tmp_path, code(("nn.functional.cross_entropy(", both), ("lr=0.5", "lr=1e-7")))
    (attempt,) = (a for a in found.attempts if a.name.startswith("mse_loss x"))
    assert attempt.first == pytest.approx(0.7, abs=0.2)  # the other loss is what it is judged by


def tried(name, gain, *, before=1.0, after=0.5, first=2.0):
    return Attempt(name, "", (before,), (after,), first, Estimate.exactly(gain))


HIGH, LOW = RATE_TOO_HIGH.name, RATE_TOO_LOW.name
HALF, CURED = tried("rate x 0.1", 0.05), tried("rate x 0.1", 0.5, after=0.1, first=1.0)
SORTED = [SORTED_CLASSES.finding("x", severity, (), "") for severity in ("warning", "note")]
DEAD = DEAD_UNITS.finding("a", "note", (), ""), LOST_INPUTS.finding("b", "warning", (), "")
DRAWN = RANDOM_EVALUATION.finding("(model)", "warning", (), "")
HELD = FROZEN_LAYER.finding("0.weight", "warning", (), "")
SLOW = RATE_TOO_LOW.finding("(training)", "error", (), "")
FREED = {FROZEN_LAYER.name: [tried("unfrozen", 0.2, before=0.3, after=0.1, first=1.0)]}
FASTER = [{LOW: [tried("rate x 100", 0.6, before=b, after=0.01, first=1.0)]} for b in (0.3, 0.8)]
STUCK = STUCK_TRAINING.finding("(training)", "warning", (), "")
UNTOLD = Attempt("rate x 1e3", "", (0.8,), (0.001,), 1.0, _paired([0.8]))
SLIGHT = {LOW: [tried("rate x 10", 0.05, before=0.8, after=0.75, first=1.0)]}
CRAWLS = {LOW: [tried("rate x 100", 0.78, before=0.98, after=0.2, first=1.0)]}
PADDED = READ_PADDING.finding("lstm", "note", (), "")
NEARER = {LOW: [tried("rate x 10", 0.25, before=0.7, after=0.45, first=1.0)]}
FELL, STAYED, HARDLY = (
    {"losses": {None: LossSeen(None, [1.0] * 8 + [last] * 32)}} for last in (0.3, 0.8, 0.95)
)
GOES_ON = {"stopped": True}
ASKED, ONCE = ({"modules": [Called("Net", None, repeated=r)]} for r in (True, False))
ODD = "unusual-settings"
JUDGED = (
    # what another finding brings comes behind it, however sure
    ([SORTED[0]], {HIGH: [CURED]}, {}, [("one-class-batches", "warning"), (HIGH, "error")]),
    ([SORTED[1]], {HIGH: [CURED]}, {}, [(HIGH, "error"), ("one-class-batches", "note")]),
    (DEAD[::-1], {}, {}, [("dead-units", "note"), ("lost-inputs", "warning")]),
    # but for an error, which a note does not explain
    (
        [PADDED, replace(SLOW, follows=PADDED.name)],
        FASTER[1],
        STAYED,
        [(LOW, "error"), (PADDED.name, "note")],
    ),
    # of a lower and a higher rate that both help one does by chance
    ([], {HIGH: [HALF], LOW: [tried("rate x 10", 0.3)]}, {}, [(LOW, "warning")]),
    ([], {HIGH: [HALF], LOW: [tried("rate x 10", -0.3)]}, {}, [(HIGH, "note")]),
    # settings are the cause where no other rate, which may make up for them, brings clearly more
    (
        [],
        {ODD: [tried("usual-settings", 0.46)], LOW: [tried("rate x 10", 0.5)]},
        {},
        [(ODD, "warning"), (LOW, "warning")],
    ),
    (
        [],
        {ODD: [tried("usual-settings", 0.44)], LOW: [tried("rate x 10", 0.5)]},
        {},
        [(LOW, "warning")],
    ),
    # draws that a script asks for again and again are meant
    ([DRAWN], {}, ASKED, [(DRAWN.name, "note")]),
    ([DRAWN], {}, ONCE, [(DRAWN.name, "warning")]),
    # what is frozen is no fault of a script that learns, nor what would bring it farther an error
    ([HELD], FREED, FELL, [(HELD.name, "note")]),
    ([HELD], FREED, STAYED, [(HELD.name, "warning")]),
    ([SLOW], FASTER[0], FELL, [(LOW, "warning")]),
    ([SLOW], FASTER[1], FELL, [(LOW, "warning")]),
    ([SLOW], FASTER[1], STAYED, [(LOW, "error")]),
    # a gain that is slight is a note, whatever asked for it
    ([SLOW], SLIGHT, STAYED, [(LOW, "note")]),
    ([], SLIGHT, STAYED, [(LOW, "note")]),
    # a run that learns, and goes on, may come as far in time; not so one that hardly falls
    ([], NEARER, STAYED, [(LOW, "warning")]),
    ([], NEARER, STAYED | GOES_ON, [(LOW, "note")]),
    ([SLOW], NEARER, STAYED | GOES_ON, [(LOW, "note")]),
    # nor is there more to it where there was no time to try a higher rate
    ([SLOW], {}, STAYED | GOES_ON, [(LOW, "note")]),
    ([SLOW], {}, STAYED, [(LOW, SLOW.severity)]),
    ([], FASTER[1], HARDLY, [(LOW, "error")]),
    ([], FASTER[1], HARDLY | GOES_ON, [(LOW, "warning")]),
    ([], CRAWLS, HARDLY | GOES_ON, [(LOW, "error")]),
    # that copies of it learned nothing in fewer steps is no word on a script that learns
    ([STUCK], {}, FELL, []),
    ([STUCK], {}, STAYED, [(STUCK.name, "warning")]),
    # what was tried once proves less than what was proved, however far it came
    ([SLOW], {LOW: [UNTOLD, FASTER[1][LOW][0]]}, STAYED, [(LOW, "error")]),
    ([SLOW], {LOW: [UNTOLD]}, STAYED, [(LOW, "note")]),
)


@pytest.mark.parametrize(("found", "attempts", "seen", "told"), JUDGED)
def test_findings_are_as_severe_as_what_proves_them_and_causes_come_first(
    found, attempts, seen, told
):
    judged = [*_judged(found, attempts, ScriptRun(steps=40, **seen))]
    assert [(f.name, f.severity) for f in judged] == told
    proved = {name for name, made in attempts.items() if any(a.helps for a in made)}
    assert not [f for f in judged if f.follows and f.name in proved]


SHARED = """\
import os
torch.distributed.init_process_group("gloo")
assert (os.environ["LOCAL_RANK"], torch.distributed.get_world_size()) == ("0", {})
model = nn.parallel.DistributedDataParallel(model)
"""


@pytest.mark.parametrize("count", [2, 1])
def test_a_script_that_wants_a_launcher_is_started_as_by_one(count, tmp_path):
    twice = ("(model(x), y)", "(model(x).softmax(1), y)")
    found = diagnosed(tmp_path, code(("# setup", SHARED.format(count)), twice))
    assert (found.script.launched, found.script.alone) == (True, count == 1)
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
    some(
        [
            ("score", True),
            ("sum(hits) / len(hits)", False),
            ("sum(hits) / len(hits), 'the last', score", False),
            ("hits[0]", False),  # nothing is said of others
        ]
    ),
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


THEIRS = "KeyError", "theirs", ""


@pytest.mark.parametrize(("at", "error"), [(0, None), (5, None), (5, THEIRS), (5, "the same")])
def test_an_error_of_our_own_is_not_told_as_the_script_s(tmp_path, monkeypatch, at, error):
    script, first = raised_by_us(tmp_path, monkeypatch, at=at)
    assert first.run.crossed.startswith("observer.py:")
    bare = Bare(first.run.error if error == "the same" else error)
    if not at:
        with pytest.raises(RuntimeError, match="odd kind"):
            _fault(bare, script, first)
    elif error == "the same":  # which comes without us, too
        assert _fault(bare, script, first) == ()
        assert first.run.error is not None
    else:
        (told,) = _fault(bare, script, first)
        assert first.run.crossed in told
        assert first.run.error is None
    assert [job.bare for job in bare.jobs] == [True]


@pytest.mark.parametrize("error", [None, ("AttributeError", "no such name", "")])
def test_lines_with_which_a_script_ends_are_not_shown(tmp_path, error):
    (tmp_path / "train.py").write_text(code())
    script, bare = Script(str(tmp_path / "train.py")), Bare(error)
    bench = _Bench(bare, script, Outcome(ScriptRun(steps=9, seconds=1.0)), 9, 1.0, math.inf, 3)
    before = code().splitlines(keepends=True)
    made = {"it": (tmp_path / "train.py", before, [*before, "opt.zero()\n"])}
    assert list(bench.checked(made)) == ([] if error else ["it"])
    assert bare.jobs[0].source == code() + "opt.zero()\n"
