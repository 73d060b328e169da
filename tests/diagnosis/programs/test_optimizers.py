"""A user's optimizer is made again for a copy, at any rate."""

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.programs import recipe_of
from sigmascope.diagnosis.programs.optimizers import unfollowed, unusual_settings


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


@pytest.mark.parametrize("name", ["adam", "AdamW", "sgd", "rmsprop", "nadam", "adamax"])
def test_by_name(name):
    model = network()
    by = recipe_of(name, model, 0.02).at(10).make(model)
    assert type(by).__name__.lower() == name.lower()
    assert by.param_groups[0]["lr"] == pytest.approx(0.2)


def test_options_go_with_a_name():
    model = network()
    recipe = recipe_of("sgd", model, 0.1, momentum=0.9, weight_decay=1e-4)
    group = recipe.make(model).param_groups[0]
    assert (group["momentum"], group["weight_decay"]) == (0.9, 1e-4)
    assert recipe.says() == "sgd at 0.1, momentum 0.9, weight_decay 0.0001"


@pytest.mark.parametrize("kind", ["instance", "function"])
def test_an_optimizer_of_its_own_keeps_its_groups(kind):
    model, copy = network(), network()
    groups = lambda m: [
        {"params": m[0].parameters(), "lr": 0.1},
        {"params": m[1].parameters(), "lr": 0.01, "weight_decay": 0.5},
    ]
    own = torch.optim.SGD(groups(model), momentum=0.9)
    make = own if kind == "instance" else (lambda ps: torch.optim.SGD(ps, 0.1, momentum=0.9))
    recipe = recipe_of(make, model, None)
    made = recipe.at(0.1).at(10).make(copy)
    rates = [g["lr"] for g in made.param_groups]
    assert rates == pytest.approx([0.1, 0.01] if kind == "instance" else [0.1])
    assert all(g["momentum"] == 0.9 for g in made.param_groups)
    mine = {id(p) for p in copy.parameters()}
    assert {id(p) for g in made.param_groups for p in g["params"]} == mine
    assert [g["lr"] for g in own.param_groups] == [0.1, 0.01]  # the user's is as it was


def test_weights_that_a_change_brought_are_trained_too():
    model = network()
    recipe = recipe_of(torch.optim.Adam(model.parameters(), 0.3), model, None)
    changed = nn.Sequential(*network(), nn.Linear(2, 5))
    made = recipe.make(changed)
    assert sum(len(g["params"]) for g in made.param_groups) == 6


@pytest.mark.parametrize(
    ("words", "rate", "options", "why"),
    [
        ("adm", None, {}, "Did you mean `adam`"),
        ("lbfg", None, {}, "no optimizer `lbfg`"),
        ("adam", None, {"momentum": 0.9}, "takes no momentum"),
        (lambda ps: [*ps], None, {}, "makes list"),
        (torch.optim.Adam(network().parameters()), 0.1, {}, "Leave them out"),
        ("adam", -1.0, {}, "must be a number from 0"),
    ],
)
def test_what_is_no_optimizer_or_has_two_rates_is_refused(words, rate, options, why):
    with pytest.raises(Refusal, match=why):
        recipe_of(words, network(), rate, **options)


def test_nothing_to_train_is_refused():
    model = network().requires_grad_(False)
    with pytest.raises(Refusal, match="require gradients"):
        recipe_of("adam", model, None).make(model)


@pytest.mark.parametrize("name", ["Adam", "SGD", "LBFGS", "RMSprop"])
def test_one_that_was_made_for_another_model_moves_nothing(name):
    """As where the model is made anew behind the optimizer, or frozen behind it."""
    model, old = network(), network()
    recipe = recipe_of(getattr(torch.optim, name)(old.parameters(), lr=0.1), model, None)
    copy = network()
    made = recipe.at(10.0).make(copy)
    assert made.param_groups[0]["lr"] == pytest.approx(1.0)
    mine = {id(p) for p in (*copy.parameters(), *old.parameters())}
    assert not mine & {id(p) for g in made.param_groups for p in g["params"]}

    def evaluated():
        loss = copy(torch.ones(5, 3)).square().sum()
        loss.backward()
        return loss

    before = [p.detach().clone() for p in copy.parameters()]
    evaluated()
    made.step(evaluated)
    assert all(map(torch.equal, before, copy.parameters()))


@pytest.mark.parametrize(
    "schedule",
    [
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: min(1, step / 10)),
        lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.01, total_iters=5),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=50),
        lambda o: torch.optim.lr_scheduler.StepLR(o, 10),
    ],
)
def test_a_schedule_is_told_and_a_warm_up_is_no_small_rate(schedule):
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    schedule(optimizer)
    begun = max(g["initial_lr"] for g in optimizer.param_groups)
    recipe = recipe_of(optimizer, model, None)
    assert recipe.rate == max(begun, optimizer.param_groups[0]["lr"]) > 0
    copy = nn.Linear(2, 2)
    assert recipe.make(copy).param_groups[0]["lr"] == recipe.rate
    assert [what for what, _ in unfollowed(optimizer, model)] == ["schedule of the rate"]


def test_weights_outside_of_the_model_are_told():
    model, loss = nn.Linear(2, 2), nn.Linear(2, 3)
    both = torch.optim.Adam([*model.parameters(), *loss.parameters()], 0.1)
    ((what, why),) = unfollowed(both, model)
    assert "outside" in what
    assert why.startswith("2 ")
    assert not [*unfollowed(torch.optim.Adam(model.parameters()), model)]
    assert not [*unfollowed(torch.optim.Adam(loss.parameters()), model)]  # another finding's
    assert not [*unfollowed("adam", model)]


@pytest.mark.parametrize(
    ("kind", "given", "usual"),
    [
        ("SGD", {}, {}),
        ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 1.0}, {}),
        ("SGD", {"momentum": 0.99, "dampening": 1.0}, {"momentum": 0.9, "dampening": 0}),
        ("Adam", {"betas": [0.9, 0.999], "amsgrad": True, "lr": 3.0}, {}),
        ("AdamW", {"betas": (0.9, 0.9)}, {"betas": (0.9, 0.999)}),
        ("RMSprop", {"eps": 1.0, "alpha": 0.0}, {"eps": 1e-8, "alpha": 0.99}),
        ("Adagrad", {"lr_decay": 1.0}, {"lr_decay": 0}),
    ],
)
def test_settings_that_are_not_usual_are_known(kind, given, usual):
    optimizer = getattr(torch.optim, kind)([nn.Parameter(torch.ones(2))], **{"lr": 0.1, **given})
    assert unusual_settings(optimizer) == usual
    optimizer.param_groups[0].update(usual)
    assert unusual_settings(optimizer) == {}


def test_of_optimizers_of_others_nothing_is_known_to_be_usual():
    class Own(torch.optim.SGD):
        def __init__(self, params, momentum=0.5):
            super().__init__(params, momentum=momentum)

    assert unusual_settings(Own([nn.Parameter(torch.ones(2))], momentum=0.99)) == {}


def test_what_a_function_of_the_user_raises_is_told():
    model = network()
    with pytest.raises(Refusal, match=r"called with, got TypeError: .* Write e\.g\. `lambda param"):
        recipe_of(lambda: torch.optim.SGD(model.parameters(), 0.1), model, None)
