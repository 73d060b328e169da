"""What holds when a model grows wider, and who is in the way where it does not."""

import math
import operator
import types

import pytest
import torch
from torch import nn

import sigmascope
from sigmascope import Refusal
from sigmascope.diagnosis import scaling
from sigmascope.diagnosis.scaling import widths
from sigmascope.diagnosis.scaling.transfer import family_of
from tests.fingerprints import differences, fingerprint

WIDTHS = (32, 64, 128, 256)
HOW = {"seeds": 3, "steps": 1, "batch_size": 64, "loss": "cross_entropy"}
NAMES = ("inp.weight", "hid.weight", "out.weight")


class Net(nn.Module):
    """Two hidden layers."""

    def __init__(self, n):
        super().__init__()
        self.inp, self.hid, self.out = nn.Linear(16, n), nn.Linear(n, n), nn.Linear(n, 5)

    def forward(self, x):
        return self.out(torch.relu(self.hid(torch.relu(self.inp(x)))))


@pytest.fixture(scope="module")
def data():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 16, generator=g)
    return x, (x @ torch.randn(16, 5, generator=g)).argmax(1)


def right(optimizer, initial=None, rates=None, kind=Net):
    """The maximal parametrisation, of another base and by the tables of the papers; spoilt at will.

    Args:
        optimizer: `sgd` or `adam`.
        initial: Powers of width by which initial weights are off, by name.
        rates: The same of rates.
    """
    powers = {
        "sgd": {"inp.weight": 1, "inp.bias": 1, "hid.bias": 1, "out.weight": -1},
        "adam": {"hid.weight": -1, "out.weight": -1},
    }[optimizer]

    def make(n):
        model, r = kind(n), n / 32
        off = {"out.weight": -0.5} | {k: v for k, v in (initial or {}).items() if k != "out.weight"}
        off["out.weight"] += (initial or {}).get("out.weight", 0.0)
        groups = []
        for name, p in model.named_parameters():
            with torch.no_grad():
                p.mul_(r ** off.get(name, 0.0))
            power = powers.get(name, 0) + (rates or {}).get(name, 0.0)
            groups.append({"params": [p], "lr": {"sgd": 0.1, "adam": 1e-2}[optimizer] * r**power})
        made = (
            torch.optim.SGD(groups) if optimizer == "sgd" else torch.optim.Adam(groups, eps=1e-12)
        )
        return model, made

    return make


def standard(n):
    return Net(n)


@pytest.mark.parametrize(
    ("optimizer", "lr", "wanted"),
    [
        ("sgd", 0.1, ("lazy", "exploding", "exploding")),
        ("adam", 1e-3, ("maximal", "exploding", "exploding")),
    ],
)
def test_the_standard_parametrisation_is_told_as_theory_has_it(data, optimizer, lr, wanted):
    found = widths(standard, WIDTHS, data, optimizer=optimizer, lr=lr, **{**HOW, "seeds": 6})
    verdicts = {w.name: w.verdict for w in found.weights}
    told = {n: v for n, v in zip(NAMES, wanted, strict=True) if verdicts[n] != "cannot be told"}
    assert {n: verdicts[n] for n in told} == told
    assert len(told) >= 2
    kinds = {w.name: w.kind for w in found.weights}
    assert [kinds[n] for n in NAMES] == ["input", "hidden", "output"]
    assert kinds["inp.bias"] == "vector"
    assert kinds["out.bias"] == "fixed"
    causes = {(o.name, o.cause) for o in found.obstacles}
    assert {("out.weight", "rate"), ("out.weight", "initial scale")} <= causes
    hidden = ("hid.weight", "rate")  # with plain steps it suffers from the readout alone
    assert (hidden in causes) == (optimizer == "adam")


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_nobody_is_accused_in_the_maximal_parametrisation(data, optimizer):
    found = widths(right(optimizer), WIDTHS, data, **HOW)
    assert not found.obstacles
    assert not found.code
    assert {w.verdict for w in found.weights} <= {"maximal", "cannot be told"}
    assert sum(w.verdict == "maximal" for w in found.weights) >= 2
    assert all(name in found.skipped for name in
               (w.name for w in found.weights if w.verdict == "cannot be told"))  # fmt: skip


MISTAKES = [
    ("adam", "initial", "hid.weight", 0.5),
    ("adam", "initial", "inp.weight", -0.5),
    ("adam", "initial", "out.weight", 0.5),
    ("adam", "rates", "inp.weight", -1.0),
    ("adam", "rates", "hid.weight", 1.0),
    ("adam", "rates", "hid.bias", -1.0),
    ("adam", "rates", "out.weight", 1.0),
    ("sgd", "initial", "out.weight", 0.5),
    ("sgd", "rates", "inp.weight", -1.0),
    ("sgd", "rates", "hid.weight", 1.0),
]


@pytest.mark.parametrize(("optimizer", "what", "name", "power"), MISTAKES)
def test_the_one_weight_that_is_spoilt_is_named_with_how_far_it_is_off(
    data, optimizer, what, name, power
):
    found = widths(right(optimizer, **{what: {name: power}}), WIDTHS, data, **HOW)
    first = found.obstacles[0]
    assert (first.name, first.cause) == (name, {"initial": "initial scale", "rates": "rate"}[what])
    assert first.exponent == power
    undone = found.initial if what == "initial" else found.rates
    assert undone[name] == -power
    assert {o.name for o in found.obstacles} == {name}  # nobody that only suffers from it


def test_an_epsilon_that_gradients_fall_to_is_told_from_a_rate(data):
    def make(n):
        model, made = right("adam")(n)
        for group in made.param_groups:
            group["eps"] = 3e-4
        return model, made

    found = widths(make, (32, 128, 512), data, **HOW)
    assert found.obstacles
    assert {o.cause for o in found.obstacles} == {"epsilon"}


def test_one_weight_in_two_places_is_not_cured_by_a_scale():
    class Tied(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.tok, self.out = nn.Embedding(16, n), nn.Linear(n, 16, bias=False)
            self.out.weight = self.tok.weight

        def forward(self, ids):
            return self.out(self.tok(ids))

    ids = torch.arange(64) % 16
    found = widths(Tied, WIDTHS, (ids, ids.roll(1)), lr=1e-3, **HOW)
    (first, *_) = [o for o in found.obstacles if o.cause == "initial scale"]
    assert first.name == "out.weight"
    assert "tok.weight" in first.says
    assert "out.weight" not in found.initial
    assert "tok.weight" not in found.initial


def test_the_cure_cures_and_its_lines_run_as_they_stand(data):
    found = widths(standard, WIDTHS, data, lr=1e-3, cure=True, **HOW)
    assert {w.verdict for w in found.after} <= {"maximal", "cannot be told"}
    assert not found.left

    def make(width):
        room = {"width": width, "model": Net(width), "lr": 1e-3, "torch": torch}
        exec(found.code, room)
        return room["model"], torch.optim.Adam(room["groups"])

    again = widths(make, WIDTHS, data, **HOW)
    assert not again.obstacles


def test_the_best_rate_moves_where_verdicts_say_so_and_stays_with_the_cure(data):
    how = {**HOW, "seeds": 2, "batch_size": 16}
    found = widths(standard, (32, 64, 128, 256), data, lr=8e-3, cure=True, transfer=24, **how)
    assert [b.width for b in found.best] == [32, 256] == [b.width for b in found.best_after]
    before, after = (scaling.moved(*pair).value for pair in (found.best, found.best_after))
    assert before > 2.5
    assert before > 1.5 * max(after, 1 / after)


def test_parts_may_have_optimizers_of_their_own(data):
    def make(n):
        model = Net(n)
        turned = torch.optim.Muon([model.hid.weight], lr=0.02, weight_decay=0.0)
        rest = [p for name, p in model.named_parameters() if name != "hid.weight"]
        return model, [turned, torch.optim.Adam(rest, lr=1e-3)]

    found = widths(make, WIDTHS, data, **HOW)
    assert found.optimizer.startswith("muon+adam")
    verdicts = {w.name: w.verdict for w in found.weights}
    assert verdicts["hid.weight"] == "maximal"  # its steps have norms that do not depend on width
    assert verdicts["out.weight"] == "exploding"
    assert found.rates["out.weight"] == -1


def test_a_program_brings_its_own_data_and_settings(data):
    program = lambda n: {"model": Net(n), "data": data, "optimizer": "sgd", "lr": 0.05, "batch": 16}
    found = widths(program, (16, 64), steps=1, seeds=2)
    assert found.optimizer == "sgd at 0.05"
    assert found.widths == (16, 64)


@pytest.mark.parametrize(
    ("field", "sizes", "wanted"),
    [
        ("n_embd", {"widths": (8, 16)}, [(8, 20, 2), (16, 40, 2)]),  # and what is inside grows too
        (["n_embd", "n_head"], {"widths": (8, 16)}, [(8, 20, 2), (16, 40, 4)]),
        ("n_layer", {"depths": (1, 3)}, [(8, 20, 2), (8, 20, 2)]),
    ],
)
def test_a_configuration_is_grown_by_the_names_of_its_sizes(field, sizes, wanted):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=11, n_embd=8, n_inner=20, n_layer=1, n_head=2, n_positions=8
    )
    family = family_of(config, **({"widths": None, "depths": None} | sizes), field=field)
    models = [family.at(size) for size in family.sizes]
    told = [(m.config.n_embd, m.config.n_inner, m.config.n_head) for m in models]
    assert told == wanted
    blocks = [len(m.transformer.h) for m in models]
    assert blocks == [*sizes.get("depths", (1, 1))]
    assert [m.transformer.h[0].mlp.c_fc.weight.shape for m in models] == [t[:2] for t in told]
    for wrong in ("n_embed", ["n_embd", "n_embed"], "activation_function", None):
        with pytest.raises(Refusal, match="n_embd"):
            family_of(config, **({"widths": None, "depths": None} | sizes), field=wrong)


def test_what_is_made_and_what_is_random_is_left_as_found(data):
    kept = {n: Net(n) for n in (16, 32)}
    before = fingerprint(models=kept, data=data)
    widths(kept.__getitem__, (16, 32), data, cure=True, **HOW)
    assert not differences(before, fingerprint(models=kept, data=data))


def test_a_readout_that_starts_at_zero_is_in_order_and_layers_before_it_move_a_step_later(data):
    def make(n):
        model, made = right("adam")(n)
        nn.init.zeros_(model.out.weight)
        return model, made

    found = widths(make, WIDTHS, data, **{**HOW, "steps": 2})
    assert not found.obstacles
    verdicts = {w.name: w.verdict for w in found.weights}
    assert verdicts["hid.weight"] == "maximal"
    spoilt = right("adam", rates={"hid.weight": 1.0})

    def worse(n):
        model, made = spoilt(n)
        nn.init.zeros_(model.out.weight)
        return model, made

    (first,) = widths(worse, WIDTHS, data, **{**HOW, "steps": 2}).obstacles
    assert (first.name, first.cause) == ("hid.weight", "rate")


class Gates(nn.Module):
    """Recurrent."""

    def __init__(self, n):
        super().__init__()
        self.rnn, self.out = nn.LSTM(4, n, batch_first=True), nn.Linear(n, 5)

    def forward(self, x):
        return self.out(self.rnn(x.unflatten(1, (4, 4)))[0][:, -1])


class Fused(nn.Module):
    """Attention whose weights no module of their own is called for."""

    def __init__(self, n):
        super().__init__()
        self.inp, self.att = nn.Linear(4, n), nn.MultiheadAttention(n, 2, batch_first=True)
        self.out = nn.Linear(n, 5)

    def forward(self, x):
        x = self.inp(x.unflatten(1, (4, 4)))
        return self.out(self.att(x, x, x)[0].mean(1))


class Raw(nn.Module):
    """Weights that the whole model holds, and more than one output."""

    def __init__(self, n):
        super().__init__()
        self.w, self.v = nn.Parameter(torch.randn(16, n) / 4), nn.Parameter(torch.zeros(n, 5))

    def forward(self, x):
        return torch.relu(x @ self.w) @ self.v, x


def computed(n):
    """A weight that another module computes."""
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(n, n))
    return nn.Sequential(nn.Linear(16, n), nn.ReLU(), normed, nn.ReLU(), nn.Linear(n, 5))


@pytest.mark.parametrize(
    ("make", "kinds", "untold"),
    [
        (Gates, {"rnn.weight_ih_l0": "input", "rnn.weight_hh_l0": "hidden"}, set()),
        (Fused, {"att.in_proj_weight": "hidden", "att.out_proj.weight": "hidden"}, set()),
        (computed, {"2.parametrizations.weight.original1": "hidden"}, set()),
        (Raw, {}, {"w", "v"}),
    ],
)
def test_layers_of_every_make_are_read_or_it_is_said(data, make, kinds, untold):
    found = widths(make, (16, 32, 64), data, lr=1e-3, **{**HOW, "steps": 2})
    assert {w.name: w.kind for w in found.weights if w.name in kinds} == kinds
    told = {w.name for w in found.weights if "effect" in w.laws}
    assert told == {w.name for w in found.weights}
    assert untold <= set(found.skipped)
    assert not untold & {o.name for o in found.obstacles}


def test_what_moves_by_rounding_alone_is_not_told(data):
    """A bias before a normaliser, whose gradient is what rounding leaves of zero."""
    make = lambda n: nn.Sequential(
        nn.Linear(16, n), nn.BatchNorm1d(n), nn.ReLU(), nn.Linear(n, n), nn.BatchNorm1d(n),
        nn.ReLU(), nn.Linear(n, 5),
    )  # fmt: skip
    found = widths(make, (16, 32, 64), data, optimizer="sgd", lr=0.1, **HOW)
    verdicts = {w.name: w.verdict for w in found.weights}
    assert {verdicts["0.bias"], verdicts["3.bias"]} == {"cannot be told"}
    assert not {"0.bias", "3.bias"} & {o.name for o in found.obstacles}


def test_progress_is_told(data):
    told = []
    widths(standard, (16, 32), data, progress=lambda *step: told.append(step), **HOW)
    assert [done for _, done, _ in told] == list(range(6))
    assert {total for *_, total in told} == {6}


@pytest.mark.parametrize(
    ("make", "chosen", "word"),
    [
        (lambda _: Net(32), (32, 64), "argument"),
        (lambda n: Net(n) if n < 64 else nn.Sequential(nn.Linear(16, 5)), (32, 64), "same weights"),
        (standard, (32,), "two or more"),
        (standard, (0, 32), "two or more"),
        (standard, (32, 32), "two or more"),
        (lambda: Net(32), (32, 64), "width"),
        (lambda n: 1 // 0, (32, 64), "ZeroDivisionError"),
        (lambda n: "model", (32, 64), "program"),
        (lambda n: (Net(n), []), (32, 64), "tensor"),
        (lambda n: Net(n).requires_grad_(False), (32, 64), "train"),
    ],
)
def test_what_cannot_be_compared_is_refused(data, make, chosen, word):
    with pytest.raises(Refusal, match=word):
        widths(make, chosen, data, **HOW)


def test_without_data_or_steps_it_is_refused(data):
    with pytest.raises(Refusal, match="data"):
        widths(standard, (16, 32), **HOW)
    with pytest.raises(Refusal, match="steps"):
        widths(standard, (16, 32), data, **{**HOW, "steps": 0})
    with pytest.raises(Refusal, match="transfer"):
        widths(standard, (16, 32), data, transfer=-1, **HOW)


def test_small_widths_and_few_of_them_tell_nothing_false(data):
    found = widths(standard, (4, 8), data, lr=1e-3, **HOW)
    assert {w.verdict for w in found.weights} == {"cannot be told"}
    assert not found.obstacles
    assert all("would tell" in why for why in found.skipped.values())


def test_one_seed_tells_little_and_says_what_would_tell_more(data):
    found = widths(standard, WIDTHS, data, lr=1e-3, **{**HOW, "seeds": 1})
    assert found.skipped
    assert all("more seeds than one" in why for why in found.skipped.values())


@pytest.mark.parametrize(
    ("seed", "through"),
    [(0, "torch"), (7, "torch.random"), ("width", "torch"), ("width", "torch.random")],
)
def test_a_function_that_seeds_torch_itself_draws_anew_for_each_seed(data, seed, through):
    """Many do. Where all models were one model, what was read looked certain, and was not."""
    own = torch.manual_seed
    seeder = operator.attrgetter("manual_seed" if through == "torch" else "random.manual_seed")

    def make(n):
        seeder(torch)(n if seed == "width" else seed)
        return Net(n)

    found = widths(make, WIDTHS, data, lr=1e-3, **HOW)
    assert found.seeds == HOW["seeds"]
    assert not found.uses
    causes = {(o.name, o.cause) for o in found.obstacles}
    assert causes <= {(n, c) for n in NAMES[1:] for c in ("rate", "initial scale")}
    assert ("hid.weight", "rate") in causes
    assert ("hid.weight", "initial scale") not in causes
    assert torch.manual_seed is own is torch.random.manual_seed


def test_a_function_whose_draws_cannot_be_reached_has_one_reading_a_width_and_that_is_said(data):
    def make(n):
        model, g = Net(n), torch.Generator().manual_seed(0)
        for p in model.parameters():
            nn.init.uniform_(p, -(n**-0.5), n**-0.5, generator=g)
        return model

    found = widths(make, WIDTHS, data, lr=1e-3, **HOW)
    assert found.seeds == 1
    assert not found.obstacles
    assert "same initial weights" in found.uses[0]
    assert found.uses[0] in " ".join(sigmascope.text(found).split())


def test_one_run_that_breaks_is_no_verdict_and_no_refusal(data):
    def make(n):
        model = Net(n)
        return model, torch.optim.SGD(model.parameters(), lr=1e38 if n == 32 else 0.1)

    found = widths(make, (16, 32), data, **HOW)
    assert {w.verdict for w in found.weights} == {"cannot be told"}
    assert not found.obstacles


def test_a_run_that_breaks_is_no_verdict(data):
    found = widths(standard, (16, 32), data, optimizer="sgd", lr=1e30, **HOW)
    assert {w.verdict for w in found.weights} <= {"cannot be told", "exploding"}
    assert not any(math.isnan(p) for p in found.rates.values())


def test_the_law_of_a_norm_is_there_beside(data):
    found = widths(right("adam"), WIDTHS, data, **HOW)
    laws = {w.name: w.laws for w in found.weights}
    for name, power in (("inp.weight", 0.5), ("hid.weight", 0.0), ("out.weight", -0.5)):
        low, high = (getattr(laws[name]["norm of weight"].exponent, e) for e in ("low", "high"))
        assert low <= power <= high, name
        assert laws[name]["norm of change at first"].nearest == power, name
    assert scaling.WIDTHS == (64, 128, 256, 512)


class Multiplied(Net):
    """With numbers of a configuration that libraries multiply by, and notes on its weights."""

    def __init__(self, n, noted):
        super().__init__(n)
        self.config = types.SimpleNamespace(
            to_dict=lambda: {"residual_multiplier": 0.5, "logits_scaling": n / 32, "hidden_size": n}
        )
        for name, p in self.named_parameters():
            if noted in ("all", name):
                p.infshape = tuple(p.shape)


@pytest.mark.parametrize(
    ("noted", "word"), [("all", "every weight"), ("hid.weight", "all but"), ("", "")]
)
def test_what_is_in_use_for_a_transfer_already_is_named(data, noted, word):
    found = widths(lambda n: Multiplied(n, noted), (8, 16), data, **HOW | {"seeds": 1})
    mup = [line for line in found.uses if line.startswith("mup")]
    assert (word in mup[0]) if word else not mup
    others = "\n".join(found.uses)
    assert "`residual_multiplier` of the configuration: 0.5 at every width" in others
    assert "`logits_scaling` of the configuration: 0.25 to 0.5" in others
    assert "hidden_size" not in others


def test_layers_may_read_what_a_library_notes_on_their_weights(data):
    class Noted(nn.Linear):
        def forward(self, x):
            return super().forward(x) / self.weight.times

    class Readout(Net):
        def __init__(self, n):
            super().__init__(n)
            self.out = Noted(n, 5)
            self.out.weight.times = n / 32

    found = widths(Readout, (32, 64), data, **HOW)
    laws = {w.name: w.laws for w in found.weights}
    assert "effect" in laws["out.weight"]
