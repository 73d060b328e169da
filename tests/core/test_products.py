"""The list of products: every module that it names is there and declares what its list says."""

import pytest

from sigmascope.core import products
from sigmascope.core.quantities import EVERY
from sigmascope.core.records import Kind
from sigmascope.diagnosis.rules.theorems import RATE
from sigmascope.survey.views.base import ProfileView
from sigmascope.theory.le2022.conservation import BalanceRate
from sigmascope.watching.probes import Probe


@pytest.mark.parametrize(
    ("names", "declared", "kind"),
    [
        (products.VIEWS, lambda m: [m.VIEW], ProfileView),
        (products.FINDINGS, lambda m: m.KINDS, Kind),
        (products.THEOREMS, lambda m: m.OF_MODELS, type),
        (products.THEOREMS, lambda m: m.THEOREMS, type),
    ],
)
def test_each_module_declares_what_its_list_promises(names, declared, kind):
    found = [each for module in products.modules(names) for each in declared(module)]
    assert len(found) >= len(names)
    assert all(isinstance(each, kind) for each in found)
    assert len({each.name for each in found}) == len(found)


def test_there_is_a_view_for_every_name_that_can_be_asked_for_in_its_order():
    assert tuple(m.VIEW.name for m in products.modules(products.VIEWS)) == EVERY


def test_what_is_followed_is_a_probe_of_a_view():
    for module in products.modules(products.FOLLOWED):
        assert issubclass(module.PROBE, Probe)
        assert module.PROBE.of_batch in EVERY


def test_the_rule_on_balances_reads_the_theorem_of_that_name():
    assert BalanceRate.name == RATE
