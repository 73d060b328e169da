"""A report says which rules could not speak, and why."""

import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, report, survey
from sigmascope.diagnosis.rules import RULES, unheard
from sigmascope.diagnosis.rules.hearing import NEEDS

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(16).remainder(3)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def test_every_rule_has_its_need():
    listed = [name for names in NEEDS.values() for name in names]
    assert sorted(listed) == sorted(rule.__name__ for rule in RULES)


def needs(profile):
    return {u.need: u.why for u in unheard(profile)}


def test_a_model_alone_says_what_it_lacks():
    silent = needs(survey.profile(network(), X))
    assert silent["task"] == "no targets and loss were given that could be compared"
    assert silent["gradients"] == "no targets and loss were given"
    assert silent["training"] == "no optimiser was given"
    assert silent["balances"] == "the view `balances` was not asked for"
    assert {"representations", "features", "setup", "weights"}.isdisjoint(silent)


def test_a_whole_program_lets_all_speak_that_were_asked():
    found = diagnosis.diagnose(network(), (X, Y), loss=F.cross_entropy, optimizer="adam")
    assert set(needs(found.profile)) == {"balances", "bottleneck", "conditioning"}


def test_targets_that_do_not_fit_are_the_reason():
    found = diagnosis.diagnose(network(), (X, Y + 7), loss=F.cross_entropy, optimizer="adam")
    assert next(f.name for f in found.findings) == "unfit-targets"
    assert "task" in needs(found.profile)


def test_the_text_names_them():
    text = report.text(survey.profile(network(), X))
    count = len(NEEDS["training"])
    says = f"{count} rules on how the program trains could not speak: no optimiser was given"
    assert says in " ".join(text.split())
