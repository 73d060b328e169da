import pytest
import torch

from sigmascope.models.networks import MLP, NETWORKS, build, mlp, options


def generator():
    return torch.Generator().manual_seed(0)


def test_a_query_is_the_call_it_describes():
    query = "mlp?depth=3&width=8&activation=tanh&norm=batch&init=he&bias=no&residual=0.5&eps=1e-3"
    built = build(query, inputs=(1, 4, 4), outputs=3, generator=generator())
    called = mlp(
        inputs=(1, 4, 4), outputs=3, depth=3, width=8, activation="tanh", norm="batch", init="he",
        bias=False, residual=0.5, eps=1e-3, generator=generator(),
    )  # fmt: skip
    assert repr(built) == repr(called)
    assert "gamma=0.5" in repr(built)
    assert all(
        torch.equal(a, b) for a, b in zip(built.parameters(), called.parameters(), strict=True)
    )


@pytest.mark.parametrize("network", NETWORKS)
def test_a_bare_name_takes_every_default(network):
    built = build(network.__name__, inputs=(1, 32, 32), outputs=3, generator=generator())
    assert repr(built) == repr(network(inputs=(1, 32, 32), outputs=3))


def test_none_is_a_value_where_the_signature_allows_it():
    built = build("mlp?residual=none", inputs=4, outputs=3)
    assert isinstance(built, MLP)
    assert built.hidden[0].gamma is None
    assert "gamma" not in repr(built)


def test_truths_are_read_in_every_spelling():
    for word, bias in [("true", 1), ("Yes", 1), ("1", 1), ("FALSE", 0), ("no", 0), ("0", 0)]:
        built = build(f"mlp?norm=none&bias={word}", inputs=4, outputs=3)
        assert any(name.endswith("bias") for name, _ in built.named_parameters()) == bias


def test_options_come_from_the_signature():
    assert list(options(mlp)) == [
        "depth", "width", "activation", "norm", "init", "bias", "residual", "eps",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (
            "mpl",
            "no network `mpl`; there are mlp, vgg, vgg19, resnet, resnet50. Did you mean `mlp`",
        ),
        ("", "no network ``"),
        ("mlp?dept=3", "no option `dept`; it has depth, width.*Did you mean `depth`"),
        ("mlp?inputs=3", "no option `inputs`"),
        ("mlp?generator=3", "no option `generator`"),
        ("mlp?depth=x", "`depth` must be a whole number, got `x`"),
        ("mlp?depth=1.5", "`depth` must be a whole number"),
        ("mlp?depth=", "`depth` must be a whole number, got ``"),
        ("mlp?eps=tiny", "`eps` must be a number, got `tiny`"),
        ("mlp?eps=nan", "`eps` must be a finite number"),
        ("mlp?residual=inf", "`residual` must be"),
        ("mlp?norm=bach", "none, batch, batch-uncentred, layer, got `bach`. Did you mean `batch`"),
        ("mlp?bias=maybe", "`bias` must be true or false"),
        ("mlp?depth", "must read `mlp\\?key=value"),
        ("mlp?depth=3&depth=4", "`depth` twice"),
        ("mlp?width=0", "`width` must be a whole number, 1 or more, got 0"),
        ("mlp?depth=-1", "`depth` must be"),
        ("resnet?depth=18", "6n \\+ 2"),
        ("vgg?bias=true", "no option `bias`"),
    ],
)
def test_refuses_in_one_sentence(as_users_see_it, query, says):
    with pytest.raises(ValueError, match=says) as refusal:
        build(query, inputs=(1, 8, 8), outputs=3)
    assert "\n" not in str(refusal.value)
