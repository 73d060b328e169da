"""Changes of a program, each with the lines that write the same."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.records import Finding
from sigmascope.diagnosis.cures.changes import CHANGES, SECOND, changes_for, of_network
from sigmascope.diagnosis.programs import Program
from sigmascope.diagnosis.programs.opened import opened
from sigmascope.diagnosis.remedies import Inapplicable, remedy

G = torch.Generator().manual_seed(0)
X = torch.randn(40, 6, generator=G)
IDS = (1 + torch.arange(40).remainder(4)).float()[:, None]


def network(*last, outputs=1):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, outputs), *last)


def program(model, targets=IDS, loss=F.mse_loss, **more):
    given = {"optimizer": "sgd", "lr": 0.2, "batch_size": 16, "epochs": 3, **more}
    return Program(model, (X, targets), loss, **given)


def of_kind(name):
    return Finding(name, "here", "warning", (), "It is so.", "me")


def changed(finding, name, whole):
    known = opened(whole, samples=40)
    (make,) = [make for said, make in changes_for(of_kind(finding)) if said == name]
    return make(whole, known)


@pytest.mark.parametrize(
    ("finding", "name", "times"),
    [
        ("rate-too-high", "lower-rate", 0.1),
        ("rate-too-high", "much-lower-rate", 0.01),
        ("rate-too-low", "higher-rate", 10.0),
        ("rate-too-low", "much-higher-rate", 100.0),
    ],
)
@pytest.mark.parametrize("kind", ["name", "instance", "function"])
def test_rates(finding, name, times, kind):
    model = network()
    by = {
        "name": {},
        "instance": {"optimizer": torch.optim.SGD(model.parameters(), 0.2), "lr": None},
        "function": {"optimizer": lambda ps: torch.optim.SGD(ps, 0.2), "lr": None},
    }[kind]
    change = changed(finding, name, program(model, **by))
    assert change.program.recipe().rate == pytest.approx(0.2 * times)
    group = change.program.recipe().make(change.program.model).param_groups[0]
    assert group["lr"] == pytest.approx(0.2 * times)
    assert change.patch == (f"lr={0.2 * times:.3g}  # in place of 0.2",)


def test_epochs_batches_optimizers_outputs_and_clipping():
    whole = program(network(), clip=1e-6)
    assert changed("few-steps", "more-epochs", whole).program.epochs == 30
    assert changed("large-batch", "smaller-batch", whole).program.batch_size == 2
    assert changed("strong-clipping", "clip-at-one", whole).program.clip == 1.0
    other = changed("other-optimizer", "other-optimizer", whole)
    assert other.program.recipe().says() == "adam at 0.001"
    assert other.patch == ("optimizer = torch.optim.Adam(model.parameters(), lr=0.001)",)
    wide = changed("spread-targets", "outputs-as-targets", program(network(outputs=5)))
    assert wide.program.model(X).shape == IDS.shape


def test_settings_of_an_optimizer_are_made_usual():
    made = lambda ps: torch.optim.Adam(ps, 0.02, eps=1.0, betas=(0.5, 0.9), maximize=True)
    whole = replace(program(network()), optimizer=made, lr=None)
    usual = changed("unusual-settings", "usual-settings", whole)
    assert {*usual.patch} == {"eps=1e-08", "betas=(0.9, 0.999)"}
    down = changed("maximised-loss", "minimise", whole)
    assert down.patch == ("maximize=False",)
    group = lambda change: change.program.recipe().make(change.program.model).param_groups[0]
    assert (group(usual)["eps"], group(usual)["betas"], group(usual)["lr"]) == (
        1e-8, (0.9, 0.999), 0.02,
    )  # fmt: skip
    assert (group(down)["maximize"], group(down)["eps"]) == (False, 1.0)


def test_one_output_for_each_class():
    whole = program(network(nn.Sigmoid()))
    change = changed("classes-on-one-output", "one-output-per-class", whole)
    known = opened(change.program, samples=40)
    assert known.unfit == ""
    assert sorted(set(known.targets.tolist())) == [0, 1, 2, 3]
    assert change.program.model(X).shape == (40, 4)
    assert change.patch == (
        "model[3] = nn.Identity()",
        "model[2] = nn.Linear(8, 4)",
        "targets = targets.flatten().long() - 1",
        "loss = F.cross_entropy",
    )
    assert whole.model(X).shape == (40, 1)  # the user's is as it was


@pytest.mark.parametrize(
    ("targets", "outputs", "loss"),
    [
        (torch.arange(40) % 4, 4, "cross_entropy"),
        (torch.eye(4)[torch.arange(40) % 4], 4, "cross_entropy"),
        ((X[:, :3] > 0).float(), 3, "binary_cross_entropy_with_logits"),
        ((X[:, :1] > 0).float(), 1, "binary_cross_entropy_with_logits"),
    ],
)
def test_cross_entropies(targets, outputs, loss):
    squared = lambda o, y: (o - (y if y.is_floating_point() else F.one_hot(y, 4))).square().mean()
    whole = program(network(nn.Sigmoid(), outputs=outputs), targets, squared)
    change = changed("squared-error-for-classes", "cross-entropy", whole)
    assert change.program.loss == loss
    assert opened(change.program, samples=40).unfit == ""
    assert float(change.program.model(X).detach().min()) < 0  # it ends in scores


def test_a_remedy_of_the_network_is_a_change():
    whole = program(network(nn.Softmax(-1)))
    change = of_network(remedy("end-in-linear"))(whole, opened(whole, samples=40))
    assert change.patch[-1] == "model[3] = nn.Identity()"
    batch = of_network(remedy("standardise-inputs"))
    with pytest.raises(Inapplicable):
        batch(program(network()), opened(program(network()), samples=40))


def test_names_are_each_said_once():
    names = [change.name for change in CHANGES]
    assert len({*names}) == len(names)
    assert len({name for name, _ in SECOND}) == len(SECOND)


def test_what_is_meant_for_a_finding_comes_the_surest_first():
    named = lambda finding: [name for name, _ in changes_for(of_kind(finding))]
    assert named("rate-too-high") == ["lower-rate", "much-lower-rate", "usual-rate"]
    assert named("double-softmax") == ["without-closing", "end-in-linear"]
    assert named("rank-collapse")[0] == "batch-norm"
    assert named("no-such-finding") == []


@pytest.mark.parametrize("name", ["Adam", "SGD", "RMSprop"])
@pytest.mark.parametrize("held", ["the last layer", "another model"])
def test_an_optimizer_of_all_parameters(name, held):
    torch.manual_seed(0)
    model, old = (nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)) for _ in range(2))
    kind = getattr(torch.optim, name)
    some = model[1].parameters() if held == "the last layer" else old.parameters()
    options = {"lr": 0.02, "weight_decay": 0.1}
    program = Program(model, (torch.ones(8, 3), torch.zeros(8)), None, kind(some, **options))
    known = opened(program, samples=8)
    finding = "untrained-weights" if held == "the last layer" else "foreign-optimizer"
    (change,) = (make(program, known) for _, make in changes_for(of_kind(finding)))
    made = change.program.recipe().make(change.program.model)
    mine = {id(p) for p in change.program.model.parameters()}
    assert {id(p) for g in made.param_groups for p in g["params"]} == mine
    assert (type(made), made.param_groups[0]["weight_decay"]) == (kind, 0.1)
    line = f"optimizer = torch.optim.{name}(model.parameters(), lr=0.02, weight_decay=0.1)"
    assert change.patch == (line,)
