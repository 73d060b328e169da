"""Each rule has a network that shows it and one that does not."""

import importlib
import pkgutil
import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, report, sources, survey
from sigmascope.core import quantities, records
from sigmascope.core.records import Kind
from sigmascope.diagnosis import judge, rules
from sigmascope.diagnosis.rules import KINDS, RULES, unheard
from sigmascope.survey.profiling import profile_views
from tests.diagnosis.readings import ABOVE, BELOW, diagnosed, reading
from tests.diagnosis.rules.networks import found, mlp


@cache
def told_of_default(depth, bias=True):
    """What is told of default weights, measured once."""
    return found(mlp(depth, width=128, bias=bias), sources.open_data("digits", samples=128))


@pytest.mark.parametrize("bias", [True, False])
def test_deep_default_networks_collapse(bias):
    collapse = told_of_default(32, bias)["rank-collapse"]
    assert collapse.severity == ("error" if bias else "warning")
    assert collapse.says.startswith("From layer hidden.")
    assert "per layer" in collapse.says


SEEDS = [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("depth", "options"),
    [
        (4, {}),
        (4, {"bias": False}),
        (4, {"init": "he"}),
        (32, {"norm": "batch"}),
        (16, {"norm": "batch-uncentred"}),
        (4, {"activation": "tanh", "init": "xavier"}),
        (8, {"activation": "gelu", "init": "he"}),
        (16, {"residual": 0.1, "init": "he"}),
    ],
)
def test_silent_on_healthy_networks(digits, depth, options, seed):
    assert found(mlp(depth, seed, **options), digits) == {}


def test_silent_on_a_trained_network(digits):
    model = mlp(3)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(model(digits.inputs), digits.targets).backward()
        optimizer.step()
    assert found(model, digits) == {}


def test_collapse_is_told_from_data_that_come_collapsed(digits):
    """A large common mean in the data is not the network's doing."""
    shifted = sources.Data(digits.inputs + 100, digits.targets, "shifted", 10)
    assert "rank-collapse" not in found(mlp(2), shifted, views=["representations"])


@pytest.mark.parametrize("norm", ["none", "batch", "batch-uncentred"])
def test_asymmetric_weights_are_found_also_behind_batch_normalisation(digits, norm):
    told = found(mlp(8, norm=norm, init="asymmetric"), digits)["asymmetric-weights"]
    assert told.site == "hidden.0.linear.weight"
    assert re.search("In [89] of 9 layers", told.says)
    assert "The participation ratio at readout is 1" in told.says


def test_a_batch_of_equal_samples_is_blamed_on_the_batch(digits):
    same = sources.Data(digits.inputs[:1].expand(64, -1, -1, -1), digits.targets[:64], "same", 10)
    told = found(mlp(4), same)
    assert list(told) == ["alike-inputs"]
    assert "less than 5e-07 of their size" in told["alike-inputs"].says


def test_parallel_and_vanishing_gradients():
    told = told_of_default(32)
    parallel, small = told["directional-gradient-vanishing"], told["vanishing-adjoints"]
    assert (parallel.site, parallel.severity) == ("readout", "error")
    assert "Prop. 19" in parallel.source
    assert (small.site, small.severity) == ("hidden.0.linear", "error")


def test_vanishing_and_exploding_signals(digits):
    assert told_of_default(16, bias=False)["vanishing-signal"].severity == "error"
    model = mlp(16, init="he")
    with torch.no_grad():
        for block in model.hidden:
            block.linear.weight.mul_(3)
    told = found(model, digits)
    assert told["exploding-signal"].severity == told["exploding-adjoints"].severity == "error"
    assert re.search(r"by a factor [89]\.", told["exploding-signal"].says)


@pytest.mark.parametrize(
    ("depth", "scale", "units", "severity"), [(6, 0.0, 64, "error"), (3, 1.0, 55, "warning")]
)
def test_dead_units_are_told_where_they_are_read(digits, depth, scale, units, severity):
    """All of them, so that the signal reaches zero, and most."""
    model = mlp(depth)
    with torch.no_grad():
        model.hidden[1].linear.weight.mul_(scale)
        model.hidden[1].linear.bias[:units] = -100
    dead = found(model, digits)["dead-units"]
    assert (dead.site, dead.severity) == ("hidden.2.linear", severity)
    assert dead.evidence[0].estimate.value >= units / 64


def test_non_finite_values(digits):
    model = mlp(4)
    with torch.no_grad():
        model.hidden[1].linear.weight.fill_(3e38)
    told = found(model, digits)["non-finite"]
    assert (told.site, told.severity) == ("hidden.2.linear", "error")


def test_the_rate_is_the_one_that_theory_predicts():
    """Without bias, default weights divide the mean square by 6 per ReLU layer."""
    says = told_of_default(32, bias=False)["vanishing-signal"].says
    factor = float(says.split("by a factor ")[1].split(" ")[0])
    assert factor == pytest.approx(1 / 6, rel=0.05)


def test_predicted_depth_is_where_the_rank_becomes_one(digits):
    model = mlp(32)
    measured = survey.profile(model, digits.inputs, views=["representations"])
    says = next(f.says for f in judge(measured) if f.name == "rank-collapse")
    predicted = int(says.split("rank one after about ")[1].split(" ")[0])
    ranks = [r.estimate.value for r in measured.series("matrix rank") if r.site != "(output)"]
    assert abs(predicted - ranks.index(1)) <= 3


def test_a_model_of_one_layer_is_not_judged(digits):
    assert found(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), digits) == {}


def test_advice_and_remedies_are_one(digits):
    """What a finding tells the user to apply is what `remedies_for` has, in that order."""
    measured = survey.profile(mlp(depth=32), digits.inputs)
    for f in diagnosis.judge(measured):
        named = re.findall(r"--apply ([a-z-]+)", " ".join(f.remedies))
        wanted = [r.name for r in diagnosis.remedies.remedies_for(f, measured)]
        assert named == wanted[: len(named)]
        assert named or not wanted
        assert "rescale-residual" not in named  # there is no branch
    rules = Path(diagnosis.rules.__file__).parent
    for file in rules.glob("[a-z]*.py"):
        assert "--apply" not in file.read_text(encoding="utf-8") or file.stem == "catalogue"


# quantity, view, form: values at which the finding has this severity; None for silence
SINGLE = [
    ("unscaled-inputs", "input size", "", 30.0, None),
    ("unscaled-inputs", "input size", "", 30.0 * ABOVE, "warning"),
    ("unscaled-inputs", "input size", "", 0.01, None),
    ("unscaled-inputs", "input size", "", 0.01 * BELOW, "warning"),
    ("unrelated-targets", "target signal", "", 2.0, None),
    ("unrelated-targets", "target signal", "", 2.0 * BELOW, "warning"),
    ("out-of-reach", "variance out of reach", "", 0.05 * BELOW, None),
    ("out-of-reach", "variance out of reach", "", 0.05, "warning"),
    ("out-of-reach", "variance out of reach", "", 0.5, "error"),
    ("unscaled-targets", "target size", "", 100.0, None),
    ("unscaled-targets", "target size", "", 100.0 * ABOVE, "warning"),
    ("unscaled-targets", "target size", "", 0.01, None),
    ("unscaled-targets", "target size", "", 0.01 * BELOW, "warning"),
    ("loud-output", "first loss over a constant's", "", 20.0, None),
    ("loud-output", "first loss over a constant's", "", 20.0 * ABOVE, "warning"),
    ("saturated-units", "saturated share", "tanh", 0.5 * BELOW, None),
    ("saturated-units", "saturated share", "tanh", 0.5, "warning"),
    ("saturated-units", "saturated share", "tanh", 0.75 * BELOW, "warning"),
    ("saturated-units", "saturated share", "tanh", 0.75, "error"),
    ("alike-inputs", "relative variation", "samples", 1e-6 * ABOVE, None),
    ("alike-inputs", "relative variation", "samples", 1e-6, "warning"),
    ("dead-units", "dead units", "", 0.75 * BELOW, None),
    ("dead-units", "dead units", "", 0.75, "warning"),
    ("dead-units", "dead units", "", 0.95 * BELOW, "warning"),
    ("dead-units", "dead units", "", 0.95, "error"),
    ("equal-units", "distinct units", "matrix", 0.5 * ABOVE, None),
    ("equal-units", "distinct units", "matrix", 0.5, "error"),
    ("equal-units", "distinct units", "samples", 0.5, "warning"),
    ("ill-conditioned-layer", "condition of learning", "", 1e4, None),
    ("ill-conditioned-layer", "condition of learning", "", 1e4 * ABOVE, "warning"),
    ("rank-one-layer", "operator-to-Frobenius ratio", "", 0.95 * BELOW, None),
    ("rank-one-layer", "operator-to-Frobenius ratio", "", 0.95, "note"),
]


@pytest.mark.parametrize(("name", "quantity", "form", "value", "severity"), SINGLE)
def test_one_number_decides(name, quantity, form, value, severity):
    assert diagnosed(reading(quantity, value, form=form)) == ({name: severity} if severity else {})


@pytest.mark.parametrize(
    "options", [{"depth": 12}, {"depth": 17, "residual": 2.0, "bias": False}], ids=str
)
def test_of_a_profile_with_holes_a_rule_is_silent_and_never_fails(options):
    """Whatever could not be read: some readings, some quantities, a layer, all spectra."""
    data = sources.open_data("digits", samples=24)
    model = mlp(width=12, **options)
    whole = survey.profile(
        model, data.inputs, targets=data.targets, loss=F.cross_entropy, views=quantities.EVERY
    )
    named = {f.name for f in judge(whole)}
    assert {"rank-collapse", "directional-gradient-vanishing"} <= named
    names = sorted({r.quantity for r in whole.readings})
    drawn = random.Random(0)
    for trial in range(30):
        share = drawn.choice([0.1, 0.5, 0.9])
        without = set(drawn.sample(names, drawn.randrange(1, len(names))))
        kept = [
            r
            for r in whole.readings
            if (r.quantity not in without if trial % 2 else drawn.random() < share)
        ]
        layers = tuple(x for x in whole.layers if trial % 3 or drawn.random() < share)
        spectra = whole.spectra if trial % 5 else ()
        told = judge(replace(whole, readings=tuple(kept), layers=layers, spectra=spectra))
        assert all(f.evidence for f in told)
        assert {r for f in told for r in f.evidence} <= {*kept, *_rates(whole)}


def _rates(profile):
    """What a violated check is shown by, beside the readings."""
    return [r for f in judge(replace(profile, readings=())) for r in f.evidence]


X = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(16).remainder(3)


def three_classes():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def needs(profile):
    return {u.need: u.why for u in unheard(profile)}


def test_a_model_alone_says_what_it_lacks():
    silent = needs(survey.profile(three_classes(), X))
    assert silent["task"] == "no targets with a loss were given that could be compared"
    assert silent["gradients"] == "no targets with a loss were given"
    assert silent["training"] == "no optimizer was given"
    assert silent["balances"] == "the view `balances` was not asked for"
    assert {"representations", "features", "setup", "weights"}.isdisjoint(silent)


def test_a_whole_program_lets_all_speak_that_were_asked():
    task = {"loss": F.cross_entropy, "optimizer": "adam", "epochs": 2}
    told = diagnosis.diagnose(three_classes(), (X, Y), **task)
    on_request = set(profile_views()) - set(quantities.ALL)
    assert set(needs(told.profile)) == on_request & {rule.reads for rule in RULES}


def test_targets_that_do_not_fit_are_the_reason():
    task = {"loss": F.cross_entropy, "optimizer": "adam"}
    told = diagnosis.diagnose(three_classes(), (X, Y + 7), **task)
    assert told.findings[0].name == "unfit-targets"
    assert "task" in needs(told.profile)


def test_the_text_names_them():
    text = report.text(survey.profile(three_classes(), X))
    count = sum(rule.reads == "training" for rule in RULES)
    says = f"{count} rules on how the program trains could not speak: no optimizer was given"
    assert says in " ".join(text.split())


def test_rules_and_kinds_of_every_module_are_listed_once():
    modules = [importlib.import_module(m.name) for m in pkgutil.iter_modules(
        rules.__path__, f"{rules.__name__}.")]  # fmt: skip
    written = {r for m in modules for r in vars(m).values() if isinstance(r, records.Rule)}
    kinds = {k for m in modules for k in vars(m).values() if isinstance(k, Kind)}
    for listed, every in ((RULES, written), (KINDS, kinds)):
        assert set(listed) == every
        assert len({each.name for each in listed}) == len(listed)
