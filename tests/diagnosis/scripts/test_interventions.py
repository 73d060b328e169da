"""Each does one thing otherwise, and gives back what it borrowed."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

from sigmascope.diagnosis.scripts import interventions as made
from sigmascope.diagnosis.scripts.observer import Observer
from sigmascope.diagnosis.scripts.rules import found_in
from tests.diagnosis.scripts.loops import FAULTY, HEALTHY, LOSS, SETUP, SLOPE, STEP, UP_TO, code
from tests.diagnosis.scripts.test_rules import run

WRITTEN = ((FAULTY, "hand-written-backward"), (HEALTHY, "backward of its own"))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("given", [(), (torch.zeros(1, 4, 3),)])
def test_a_state_is_carried_from_batch_to_batch_of_one_size(batch_first, given):
    net, change = nn.GRU(2, 3, batch_first=batch_first), made.CarriedState()
    change.called(net, ())
    g = torch.Generator().manual_seed(0)
    one, two = torch.randn(2, *((4, 5, 2) if batch_first else (5, 4, 2)), generator=g)
    whole, _ = net(torch.cat([one, two], 1 if batch_first else 0).detach())
    change._last.clear()
    _, last = net(one, *given)
    out, _ = net(two, *given)
    assert torch.allclose(out, whole.narrow(1 if batch_first else 0, 5, 5), atol=1e-6)
    own = torch.ones(1, 4, 3)
    assert torch.equal(net(two, own)[0], net(two, own)[0])  # one that is given is taken
    with torch.no_grad():
        asked, _ = net(one, *given)
    change._last.clear()
    assert torch.equal(asked, net(one, *given)[0])  # and what is asked begins anew
    assert not last.detach().eq(0).all()


def test_layers_that_are_one_are_made_copies_and_train():
    block, once = nn.Linear(3, 3), nn.ReLU()
    model = nn.Sequential(block, once, block, once)
    x, change = torch.randn(2, 3), made.ApartLayers()
    before = model(x)
    change.called(model, ())
    assert torch.equal(model(x), before)
    assert model[0] is block
    assert model[2] is not block
    change.called(model, ())
    assert len([*model.parameters()]) == 4


def test_of_two_draws_at_a_place_the_second_is_the_first():
    change = made.OneDraw(places=frozenset({"here"}))
    a, b, c = (torch.tensor([k]) for k in range(3))
    given = [change.drawn(*pair) for pair in (("here", a), ("there", c), ("here", b), ("here", c))]
    assert [int(t) for t in given] == [0, 2, 0, 2]
    both = made.OneDraw(places=frozenset({"here", "there"}))
    given = [both.drawn(*pair) for pair in (("here", a), ("here", b), ("there", c), ("there", a))]
    assert [int(t) for t in given] == [0, 1, 1, 0]
    assert int(both.drawn("there", torch.tensor([3, 4]))[0]) == 3  # of one shape alone


def test_edges_are_turned_round_and_nothing_else():
    edges, x = torch.tensor([[0, 1, 2], [3, 4, 5]]), torch.randn(2, 3)
    given = made.ReversedEdges().called(nn.Linear(1, 1), (x, edges))
    assert given[0] is x
    assert given[1].tolist() == [[3, 4, 5], [0, 1, 2]]


@pytest.mark.parametrize(("factor", "size"), [(1.0, 14.0), (14.0, 14.0), (20.0, 20.0)])
def test_scores_are_made_as_sharp_as_is_usual_and_none_less(factor, size):
    a = torch.randn(4, 3, requires_grad=True)
    cosines = nn.functional.normalize(a) @ nn.functional.normalize(a).T
    out, _ = made.SharperScores().given("cross_entropy", (cosines * factor, torch.arange(4)))
    assert torch.allclose(out, cosines * size)
    plain = (a @ a.T, torch.arange(4))
    assert made.SharperScores().given("cross_entropy", plain) == plain


def test_a_term_weighs_more_beside_the_rest_and_steps_are_no_longer():
    w = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], 1.0)
    change = made.HeavierTerm(term=("mse", "here"), factor=100.0)
    term = w[0] * 1.0
    change.compared("mse", "here", term)
    change.compared("mse", "there", w[1] * 1.0)
    (term + w[1]).backward()
    change.before_step(optimizer)
    assert w.grad.tolist() == pytest.approx([1.0, 0.01])
    assert change.judged_by() == ("mse", "here")


@pytest.mark.parametrize(
    ("name", "change", "cured"),
    [
        ("left-out-parameters", made.AllParameters, lambda run: run.loss.values[-1] < 0.4),
        ("dwindling-rate", made.HoldRate, lambda run: set(run.main.rates) == {0.5}),
        ("clipped-steps", made.NoClipping, lambda run: run.loss.values[-1] < 0.4),
        ("evaluation-mode", made.TrainingMode, lambda run: run.modules[0].in_evaluation <= 1),
        ("long-warm-up", made.FullRate, lambda run: run.loss.values[-1] < 0.5),
    ],
)
def test_it_cures_what_it_is_meant_for(name, change, cured):
    text = code(*FAULTY[name])
    assert not cured(run(text))
    assert cured(run(text, intervention=change()))


def test_the_full_rate_of_a_plan_that_goes_up_and_down_is_the_highest():
    seen = run(
        code((SETUP, UP_TO), (STEP, f"{STEP}    sched.step()\n")), intervention=made.FullRate()
    )
    assert set(seen.main.rates) == {0.5}


def test_a_rate_that_is_lowered_by_hand_is_held_too():
    lowered = f"{STEP}        opt.param_groups[0]['lr'] *= 0.7\n"
    text = code((STEP, lowered))
    (found,) = found_in(run(text))
    at = next(k for k, line in enumerate(text.splitlines(), 1) if "opt.step()" in line)
    assert (found.name, found.site) == ("dwindling-rate", f"<loop>:{at}")
    assert set(run(text, intervention=made.HoldRate()).main.rates) == {0.5}
    assert found_in(run(text.replace("0.7", "0.97"))) == ()


def test_a_function_with_a_backward_of_its_own_is_derived_by_autograd():
    wrong, right = (code(*loops[name]) for loops, name in WRITTEN)
    own, derived = run(right), run(wrong, intervention=made.DerivedFunctions())
    assert derived.loss.values == pytest.approx(own.loss.values, rel=1e-5)
    assert run(wrong).loss.values != pytest.approx(own.loss.values, rel=1e-3)


def test_long_gradients_are_clipped_and_short_ones_are_left():
    p = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([p], lr=1.0)
    for size, left in ((5.0, 1.0), (0.25, 0.5)):
        p.grad = torch.full((4,), size)
        made.Clipped().before_step(optimizer)
        assert float(p.grad.norm()) == pytest.approx(left, rel=1e-4)


@pytest.mark.parametrize(
    ("first", "last", "shape", "axes"),
    [
        (nn.Linear(3, 4), nn.Linear(4, 2), (8, 3), (0,)),
        (nn.Linear(3, 4), nn.Linear(4, 2), (8, 5, 3), (0, 1)),
        (nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1), (8, 3, 5, 5), (0, 2, 3)),
    ],
)
def test_hidden_layers_are_normalised_and_the_last_is_not(first, last, shape, axes):
    net, x = nn.Sequential(first, last), torch.randn(shape, generator=torch.Generator())
    change, raw = made.NormalisedLayers(), first(x)
    change.called(net, (x,))
    change.called(net, (x,))  # hooks are set once
    hidden = first(x)
    torch.testing.assert_close(hidden.mean(axes), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(hidden.std(axes), torch.ones(4), atol=1e-3, rtol=0)
    axes_kept = (raw - raw.mean(axes, keepdim=True)) / raw.std(axes, keepdim=True)
    torch.testing.assert_close(hidden, axes_kept, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(net(x), last(hidden))


def test_what_a_script_detaches_stays_in_the_graph():
    text = code(*FAULTY["cut-graph"])
    assert run(text, intervention=made.KeptGraph()).loss.values[-1] < run(text).loss.values[-1]


def test_a_derivative_that_a_loss_is_made_of_has_a_graph():
    sloped = SLOPE.format(", retain_graph=True", " + 9 * slope.abs().mean()")
    text = code(("loss = " + LOSS, sloped), ("lr=0.5", "lr=0.01"))
    assert run(text, intervention=made.KeptGraph()).loss.values[-1] < run(text).loss.values[-1]


def test_decay_is_taken_away():
    optimizer = torch.optim.AdamW([nn.Parameter(torch.ones(2))], weight_decay=3.0)
    made.NoDecay().before_step(optimizer)
    assert optimizer.param_groups[0]["weight_decay"] == 0.0


def test_settings_are_held_at_others_in_every_step():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(2))], 0.1, momentum=0.99)
    change = made.UsualSettings(settings={"momentum": 0.9, "dampening": 0})
    assert change.says == "momentum 0.9 and dampening 0"
    for _ in range(2):
        optimizer.param_groups[0]["momentum"] = 0.95  # as a schedule does
        change.before_step(optimizer)
        assert optimizer.param_groups[0]["momentum"] == 0.9


def test_weights_are_drawn_anew_once_and_the_numbers_of_the_script_stay():
    net = nn.Linear(3, 3)
    nn.init.zeros_(net.weight)
    change, state = made.Redrawn(), torch.random.get_rng_state()
    change.called(net, ())
    drawn = net.weight.clone()
    assert drawn.abs().min() > 0
    assert torch.equal(torch.random.get_rng_state(), state)
    nn.init.zeros_(net.weight)
    change.called(net, ())
    assert net.weight.abs().max() == 0


def test_nothing_stays_frozen_but_what_takes_no_gradient():
    net = nn.Linear(2, 2)
    net.weight.requires_grad_(False)
    net.count = nn.Parameter(torch.ones(2, dtype=torch.long), requires_grad=False)
    made.Unfrozen().called(net, ())
    assert (net.weight.requires_grad, net.count.requires_grad) == (True, False)


def test_a_loader_in_order_is_shuffled_and_others_stay():
    x = torch.arange(64)
    ordered, drawn = DataLoader(x, 8), DataLoader(x, 8, shuffle=True)
    for loader in (ordered, drawn):
        made.Shuffled().iterated(loader)
    assert isinstance(drawn.sampler, RandomSampler)
    batches = torch.cat([*ordered])
    assert not torch.equal(batches, x)
    assert torch.equal(batches.sort().values, x)


def test_inputs_are_scaled_by_the_first_batch_and_constant_features_stay():
    x = torch.stack((torch.linspace(0, 1e4, 16), torch.ones(16)), 1)
    (found,) = made.StandardisedInputs().called(nn.Identity(), (x,))
    assert found[:, 0].std().item() == pytest.approx(1)
    assert found[:, 1].abs().max().item() == 0


def test_inputs_are_standardised_too_where_a_model_is_asked_without_gradients():
    one, model, x = made.StandardisedInputs(), nn.Linear(2, 1), 5 + 3 * torch.randn(64, 2)
    for other in (torch.arange(3), "text"):
        assert one.called(model, (other,)) is None  # what is no numbers is left alone
    assert one.asked(model, (x,)) is None  # nothing is known of them yet
    (first,) = one.called(model, (x,))
    (then,) = one.asked(model, (x,))
    assert torch.equal(first, then)
    assert one.asked(model, ()) is None


def test_a_scheduler_whose_rate_is_held_can_be_asked_for_it():
    lines = "sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda t: 0.5 ** t)"
    text = code(("# setup", lines), ("        opt.step()\n", "        opt.step(); sched.step()\n"))
    text += "rates = sched.get_last_lr()\n"
    watching = Observer(own=lambda name: name == "<loop>", intervention=made.HoldRate())
    space = {"__name__": "__main__"}
    with torch.random.fork_rng(), watching:
        exec(compile(text, "<loop>", "exec"), space)
    assert {*watching.run.main.rates} == {0.5}
    assert len(space["rates"]) == 1


def stepped(kind, change=None, groups=lambda net: net.parameters(), *, lr=0.01, decay=0.1):
    """Weights after some steps of a network with a norm, biases and an embedding."""
    change = change or made.Intervention()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(9, 4), nn.LayerNorm(4), nn.Linear(4, 3))
    optimizer = kind(groups(net), lr=lr, weight_decay=decay)
    for k in range(6):
        x = torch.arange(k, k + 3)
        change.called(net, (x,))
        optimizer.zero_grad()
        net(x).square().mean().backward()
        change.before_step(optimizer)
        optimizer.step()
        change.after_step(optimizer)
    group = optimizer.param_groups[0]
    assert (group["lr"], group["weight_decay"]) == (lr, decay)  # what was borrowed is given back
    return torch.cat([p.flatten() for p in net.parameters()])


def of_matrices(net):
    rest = [p for m in net[:2] for p in m.parameters()] + [net[2].bias]
    return [{"params": [net[2].weight]}, {"params": rest, "weight_decay": 0.0}]


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_matrices_alone_decay_as_with_groups_of_parameters(kind):
    ours = stepped(kind, made.DecayOfMatrices())
    torch.testing.assert_close(ours, stepped(kind, groups=of_matrices), rtol=1e-5, atol=1e-7)
    assert not torch.allclose(ours, stepped(kind), rtol=1e-4)


ADAM, ADAMW, SGD = torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD


@pytest.mark.parametrize(
    ("kind", "change", "own", "how", "within"),
    [
        (ADAM, made.DecoupledDecay(), ADAMW, {}, {}),
        (
            SGD,
            made.AdamSteps(),
            ADAM,
            {"lr": 1e-3, "decay": 0.0},
            {"rtol": 1e-4, "atol": 1e-6},
        ),
    ],
)
def test_steps_are_those_of_another_optimizer(kind, change, own, how, within):
    torch.testing.assert_close(stepped(kind, change, **how), stepped(own, **how), **within)


def test_a_rate_is_changed_for_the_step_alone():
    ours = stepped(SGD, made.ScaledRate(factor=0.1), lr=0.5)
    torch.testing.assert_close(ours, stepped(SGD, lr=0.05))


@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss"])
def test_targets_are_scaled_and_the_loss_is_told_in_its_own_unit(loss):
    torch.manual_seed(0)
    x, y = torch.randn(64, 3), 500 + 90 * torch.randn(64, 1)
    mean, spread = y.mean(), y.std()
    function, net, change = (
        getattr(nn.functional, loss),
        nn.Linear(3, 1),
        made.ScaledTargets(),
    )
    power = 2 if loss == "mse_loss" else 1
    scaled = function(net(x), (y - mean) / spread)
    told = function(*change.given(loss, (net(x), y)))
    torch.testing.assert_close(told, scaled * spread**power)
    own, ours = (torch.autograd.grad(value, net.weight)[0] for value in (scaled, told))
    torch.testing.assert_close(ours, own, rtol=1e-4, atol=1e-6)
    one = torch.ones(1, 1, requires_grad=True), torch.ones(1, 1)
    assert made.ScaledTargets().given(loss, one) is one  # which has no spread
    two = torch.ones(2, 1, requires_grad=True), torch.tensor([[1.0], [3.0]])
    assert made.ScaledTargets().given(loss, two)[0].tolist() == [[pytest.approx(2 + 2**0.5)]] * 2
    classes = net(x), torch.zeros(64, dtype=torch.long)
    assert change.given("cross_entropy", classes) is classes


def test_outputs_are_compared_in_the_shape_of_their_targets():
    out, wanted = torch.ones(4, 1), torch.ones(4)
    assert made.FittedShapes().given("mse_loss", (out, wanted))[0].shape == (4,)
    fit = out, torch.ones(4, 1)
    assert made.FittedShapes().given("mse_loss", fit) is fit
    assert made.FittedShapes().given("mse_loss", (out, torch.ones(3)))[0] is out


def test_hidden_layers_of_one_width_are_skipped():
    net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    change, x = made.SkippedLayers(), torch.randn(5, 4)
    change.called(net, (x,))
    change.called(net, (x,))
    hidden = torch.nn.functional.linear(x, net[0].weight, net[0].bias)
    for layer in net[1:3]:
        hidden = hidden + torch.nn.functional.linear(hidden, layer.weight, layer.bias)
    torch.testing.assert_close(net(x), net[3](hidden))


def test_dropout_of_most_is_made_light_and_other_is_left():
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.95), nn.Dropout2d(0.5), nn.Dropout(0.2))
    made.LightDropout().called(net, ())
    assert [m.p for m in net[1:]] == [0.1, 0.1, 0.2]
