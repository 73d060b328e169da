"""Numbers outside of their ranges are refused by name before anything is opened."""

from pathlib import Path

import cyclopts
import pytest

from sigmascope.cli import COMMANDS, app, options

NETWORKS = {
    "profile", "diagnose", "check", "remedy", "balances", "compare", "bottleneck", "compress",
    "landscape", "rank",
}  # fmt: skip
TOP = 2**31 - 1
RANGES = {  # the ends that are taken, and the nearest that are not
    "Fitting": (options.Fitting, [-TOP, TOP], [TOP + 1]),  # the door says the rest
    "Count": (options.Count, [1, TOP], [0, TOP + 1]),
    "Index": (options.Index, [0, TOP], [-1, TOP + 1]),
    "Step": (options.Step, [0, 2**63 - 1], [-1, 2**63]),
    "Points": (options.Points, [-5, 2001], [2002]),
    "Units": (options.Units, [2, TOP], [1, TOP + 1]),
    "Workers": (options.Workers, [1, 1024], [0, 1025]),
    "Depths": (options.Depths, [-1, 10_000], [10_001]),
    "Extent": (options.Extent, [1e-300, 1e6], [0.0, 1000000.1, "nan"]),
    "Gain": (options.Gain, [1e-300, "inf"], [0.0, -1.0, "nan"]),
    "Finite": (options.Finite, [-1e308, 1e308], ["inf", "-inf", "nan"]),
    "Chance": (options.Chance, [1e-9, 1 - 1e-9], [0.0, 1.0, "nan"]),
    "Momentum": (options.Momentum, [0.0, 1 - 1e-9], [-1e-9, 1.0, "nan"]),
    "Above": (options.Above, [1e-300, 1e308], [0.0, "inf", "nan"]),
    "AtLeast": (options.AtLeast, [0.0, 1e308], [-1e-300, "inf", "nan"]),
    "Ridges": (options.Ridges, [1e-300, 1e308], [0.0, "inf", "nan"]),
    "Strengths": (options.Strengths, [-1e6, 1e6], [1000000.1, -1000000.1, "nan"]),
}


def number(value):
    return float(value) if isinstance(value, str) else value


def parsed(kind, *values):
    app = cyclopts.App()

    def command(*, x):
        return x

    command.__annotations__ = {"x": kind}
    app.default(command)
    words = [word for value in values for word in ("--x", str(value))]
    _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    return bound.kwargs["x"]


@pytest.mark.parametrize("name", RANGES)
def test_a_range_ends_where_it_says(name):
    kind, taken, refused = RANGES[name]
    for value in taken:
        found = parsed(kind, value)
        assert (found[0] if isinstance(found, list) else found) == number(value)
    for value in refused:
        with pytest.raises(cyclopts.ValidationError, match="Must be"):
            parsed(kind, value)


def test_of_several_numbers_each_is_in_range():
    assert parsed(options.Depths, 2, 3) == [2, 3]
    with pytest.raises(cyclopts.ValidationError, match="Must be"):
        parsed(options.Depths, 2, 10_001)


def test_a_number_out_of_range_is_one_sentence_with_its_name(sigmascope):
    code, out, err = sigmascope("profile", "nothing.py:here", "--step", "-1")
    assert (code, out) == (2, "")
    assert err.count("\n") <= 2
    assert "--step" in err
    assert "Must be >= 0" in err
    assert "nothing.py" not in err


@pytest.mark.parametrize("command", ["profile", "check", "remedy", "rank", "landscape", "diagnose"])
@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--loss", "cross_entropi", "Did you mean `cross_entropy`?"),
        ("--device", "cuda:99", "There is no device `cuda:99` here; take `cpu`"),
        *(
            ("--device", name, f"There is no device `{name}` here; take `cpu`")
            for name in ("warp", "meta", "privateuseone", "xla:0", "cpu:x", "")
        ),
    ],
)
def test_a_loss_or_device_that_is_not_there_is_refused_before_anything_is_read(
    sigmascope, command, option, value, says
):
    Path("out.json").write_text("kept")
    code, out, err = sigmascope(command, "nothing.py:here", option, value, "--json", "out.json")
    assert (code, out) == (2, "")
    assert err.count("\n") <= 2
    assert says in err
    assert Path("out.json").read_text() == "kept"


def test_every_command_that_measures_a_network_takes_a_loss_and_a_device():
    for command in COMMANDS:
        options = {n for a in app[command.__name__].assemble_argument_collection() for n in a.names}
        networks = command.__name__ in NETWORKS
        assert ({"--loss", "--device"} <= options) == networks, command.__name__
