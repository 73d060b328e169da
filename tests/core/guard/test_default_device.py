import torch

from sigmascope.core.guard import PACKAGE, on_cpu


def made(code, path):
    """What an expression gives that stands in a file."""
    return eval(compile(code, path, "eval"), {"torch": torch, "x": torch.ones(2)})


OURS, THEIRS = f"{PACKAGE}linalg/spectra.py", "/home/them/train.py"


def test_what_is_made_here_lies_on_the_cpu_and_what_a_model_makes_where_it_would():
    with torch.device("meta"), on_cpu():
        assert made("torch.zeros(2)", OURS).device.type == "cpu"
        assert made("torch.randn(2, generator=torch.Generator())", OURS).device.type == "cpu"
        assert made("torch.as_tensor(x)", OURS) is not None
        assert made("torch.zeros(2, device='meta')", OURS).device.type == "meta"
        assert made("torch.zeros(2)", THEIRS).device.type == "meta"
        beside = f"{PACKAGE.rstrip('/')}_mine/train.py"  # a name that only begins alike
        assert made("torch.zeros(2)", beside).device.type == "meta"
    assert made("torch.zeros(2)", OURS).device.type == "cpu"


def test_a_tensor_that_is_there_stays_where_it_is():
    with torch.device("meta"):
        there = torch.zeros(2)
        with on_cpu():
            x = eval(
                compile("torch.as_tensor(there)", OURS, "eval"), {"torch": torch, "there": there}
            )
            assert x.device.type == "meta"


def test_the_default_is_given_back():
    with torch.device("meta"):
        with on_cpu():
            pass
        assert torch.zeros(1).device.type == "meta"
    assert torch.zeros(1).device.type == "cpu"
