"""Losses by name; next tokens as targets."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.programs import fitting_loss
from sigmascope.diagnosis.programs.losses import (
    is_language,
    loss_names,
    loss_of,
    mask_of,
    shifted,
    tells_next,
    tokens_of,
)

OUT, IDS = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3


@pytest.mark.parametrize(
    ("name", "same", "targets"),
    [
        ("cross_entropy", F.cross_entropy, IDS),
        ("CrossEntropyLoss", F.cross_entropy, IDS),
        ("ce", F.cross_entropy, IDS),
        ("mse", F.mse_loss, OUT.flip(0)),
        ("l1", F.l1_loss, OUT.flip(0)),
        ("bce_with_logits", F.binary_cross_entropy_with_logits, (OUT > 0).float()),
        ("smooth_l1", F.smooth_l1_loss, 0.1 * OUT.flip(0)),
        ("smooth_l1_loss", F.smooth_l1_loss, OUT.flip(0)),
    ],
)
def test_names(name, same, targets):
    assert torch.equal(loss_of(name)(OUT, targets), same(OUT, targets))


def test_sequences_and_whole_numbers_are_taken_as_torch_wants_them():
    scores, classes = OUT.reshape(2, 3, 3), IDS.reshape(2, 3)
    expected = F.cross_entropy(OUT, IDS)
    assert torch.allclose(loss_of("cross_entropy")(scores, classes), expected)
    assert torch.allclose(loss_of("cross_entropy")(OUT, IDS.int()), expected)
    assert float(loss_of("mse")(torch.zeros(3, 1), torch.ones(3, 1, dtype=torch.long))) == 1.0


def test_a_loss_stays_what_it_is():
    module = nn.HuberLoss()
    assert loss_of(module) is module
    assert "cross_entropy" in loss_names()
    assert all(callable(loss_of(name)) for name in loss_names())
    with pytest.raises(Refusal, match="Did you mean `cross_entropy`"):
        loss_of("cros_entropy")


def test_next_tokens():
    ids = torch.tensor([[5, 6, 7, 8], [1, 2, 0, 0]])
    assert shifted(ids).tolist() == [[6, 7, 8, -100], [2, 0, 0, -100]]
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    assert shifted(ids, mask).tolist() == [[6, 7, 8, -100], [2, -100, -100, -100]]
    assert tokens_of({"input_ids": ids}) is ids
    assert tokens_of(ids.float()) is None
    assert mask_of({"input_ids": ids, "attention_mask": mask}) is mask
    assert mask_of(ids) is None
    assert is_language(ids, torch.zeros(2, 4, 9))
    assert not is_language(ids, torch.zeros(2, 4, 8))  # an id beyond the scores
    assert not is_language(ids, torch.zeros(2, 9))


def test_tokens_of_two_kinds_are_the_decoders():
    ids, decoder = torch.ones(2, 4, dtype=torch.long), torch.zeros(2, 3, dtype=torch.long)
    both = {"input_ids": ids, "attention_mask": ids, "decoder_input_ids": decoder}
    assert tokens_of(both) is decoder
    assert mask_of(both) is None  # the one that is there is of the other tokens
    assert mask_of({**both, "decoder_attention_mask": decoder}) is decoder


@pytest.mark.parametrize(
    ("kind", "tells"),
    [
        ("GPT2LMHeadModel", True),
        ("T5ForConditionalGeneration", True),
        ("BertLMHeadModel", True),
        ("BertForMaskedLM", False),
        ("BertForPreTraining", False),
    ],
)
def test_models_for_masked_tokens_do_not_tell_what_is_next(kind, tells):
    transformers = pytest.importorskip("transformers")
    family = kind.partition("LMHead")[0].partition("For")[0]
    config = getattr(transformers, f"{family}Config")(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    with torch.device("meta"):
        model = getattr(transformers, kind)(config)
    assert tells_next(model) is tells
    assert tells_next(nn.Sequential(model)) is tells  # wrapped, as by adapters and trainers
    assert tells_next(nn.Linear(2, 2))  # nobody says that it does not


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def classes(*shape, kinds=4):
    return torch.randint(kinds, shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("output", "targets"),
    [
        ((6, 4), (6,)),
        ((6, 5, 4), (6, 5)),  # of a sequence the classes come last
        ((6, 4, 5), (6, 5)),  # of a segmentation they come second
        ((2, 4, 3, 5), (2, 3, 5)),
    ],
)
def test_whole_numbers_are_classes_wherever_the_scores_have_them(output, targets):
    scores, wanted = drawn(*output), classes(*targets)
    last = output[-1] == 4
    expected = F.cross_entropy(scores.movedim(-1, 1) if last else scores, wanted)
    assert float(fitting_loss(scores, wanted)) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_classes_of_any_whole_numbers_are_alike(kind):
    scores, wanted = drawn(6, 4), classes(6)
    assert fitting_loss(scores, wanted.to(kind)) == F.cross_entropy(scores, wanted)


def test_the_target_that_is_ignored_counts_for_nothing():
    scores, wanted = drawn(6, 4), classes(6)
    wanted[2:] = -100
    assert fitting_loss(scores, wanted) == F.cross_entropy(scores[:2], wanted[:2])


@pytest.mark.parametrize(
    ("output", "targets"),
    [((6, 1), (6,)), ((6,), (6, 1)), ((6, 2, 3), (6, 6)), ((6, 6), (6, 3, 2))],
)
def test_values_are_compared_in_their_order_whatever_their_shape(output, targets):
    wanted = drawn(*targets, seed=1).double()
    expected = (drawn(*output).flatten() - wanted.flatten().float()).square().mean()
    assert float(fitting_loss(drawn(*output), wanted)) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize(
    ("output", "targets", "says"),
    [
        (drawn(6, 2), drawn(6, 3), r"shape of the output, \(6, 2\), got \(6, 3\)"),
        (drawn(6, 2, 3), drawn(6, 3, 2), r"got \(6, 3, 2\)"),  # other values in the same places
        (drawn(6, 4), drawn(4, 6), r"got \(4, 6\)"),
        (drawn(6, 2), drawn(6, 2).to(torch.complex64), "imaginary parts would be lost"),
        (drawn(6, 1).half(), 1e6 * drawn(6, 1), "must fit torch.float16"),
        (drawn(6, 4), classes(5), r"one class for each row of scores, got targets of shape \(5,\)"),
        (drawn(6), classes(6), r"for an output of shape \(6,\)"),
        (
            drawn(6, 3),
            classes(6) * 0 + 3,
            "from 0 to 2, for the model has 3 outputs, got 3",
        ),
        (drawn(6, 3), classes(6) * 0 - 1, "got -1. Renumber them, or widen the last layer"),
    ],
)
def test_targets_that_do_not_fit_are_refused(output, targets, says):
    with pytest.raises(Refusal, match=says):
        fitting_loss(output, targets)
