import math
from typing import Literal

import pytest

from sigmascope.models.networks.refusals import (
    nearest,
    require_choice,
    require_counts,
    require_gamma,
    require_image,
    require_options,
)

pytestmark = pytest.mark.usefixtures("as_users_see_it")
FINE = {"activation": "relu", "norm": "none", "init": "he", "eps": 0.0}


def test_a_word_that_is_near_is_proposed():
    assert nearest("bacth", ["layer", "batch"]) == " Did you mean `batch`?"
    assert nearest("zzz", ["layer", "batch"]) == nearest("a", []) == ""


def test_a_choice_names_them_all():
    require_choice("mode", "fast", Literal["fast", "slow"])
    with pytest.raises(ValueError, match=r"`mode` must be one of fast, slow, got `slwo`. Did you"):
        require_choice("mode", "slwo", Literal["fast", "slow"])


@pytest.mark.parametrize("count", [0, -3, 2.0, True, "2", None])
def test_a_count_is_a_whole_number(count):
    with pytest.raises(
        ValueError, match=rf"`depth` must be a whole number, 1 or more, got {count}"
    ):
        require_counts(width=1, depth=count)


def test_a_count_may_have_a_least_value_of_its_own():
    require_counts(least=3, depth=3)
    with pytest.raises(ValueError, match="`depth` must be a whole number, 3 or more, got 2"):
        require_counts(least=3, depth=2)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"activation": "rule"}, "`activation` must be one of .*Did you mean `relu`"),
        ({"norm": "btach"}, "`norm` must be one of .*Did you mean `batch`"),
        ({"init": "hee"}, "`init` must be one of .*Did you mean `he`"),
        ({"eps": -1e-9}, "`eps` must be a finite number, 0 or more, got -1e-09"),
        ({"eps": math.inf}, "got inf"),
        ({"eps": math.nan}, "got nan"),
    ],
)
def test_each_option_is_told_apart(changed, says):
    require_options(**FINE)
    with pytest.raises(ValueError, match=says):
        require_options(**{**FINE, **changed})


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ([1, 8, 8], r"must be the shape \(channels, height, width\) of one image, got \[1, 8, 8\]"),
        ((8, 8), "use `mlp`"),
        ((1, 4, 3), "4 x 4 pixels or more, got 4 x 3"),
        ((1, 4.0, 4), "`height` must be a whole number"),
    ],
)
def test_an_image_has_three_counts_and_four_pixels(inputs, says):
    assert require_image((2, 4, 5)) == (2, 4, 5)
    with pytest.raises(ValueError, match=says):
        require_image(inputs)


@pytest.mark.parametrize("gamma", [0.0, -1.0, math.nan])
def test_a_strength_is_above_zero(gamma):
    require_gamma(math.inf)
    with pytest.raises(ValueError, match=f"`gamma` must be above 0, .* got {gamma}"):
        require_gamma(gamma)
