"""What is registered for a kind is done with it, and products are asked before giving up."""

from types import ModuleType

import pytest

import sigmascope as ss
from sigmascope.core import products
from sigmascope.core.guard import Refusal
from sigmascope.report.results import by_kind, refused


class Own:
    pass


class Derived(Own):
    pass


@by_kind
def said(result):
    raise refused(result)


@said.register
def _own(result: Own):
    return "own"


@said.register
def _number(result: int, *beside, **more):
    return result, beside, more


def test_each_kind_has_its_own_and_so_have_those_derived_from_it():
    assert said(Own()) == said(Derived()) == "own"


def test_what_stands_beside_a_result_is_handed_on():
    assert said(1, 2, three=3) == (1, (2,), {"three": 3})


def test_of_what_no_product_knows_it_is_said_what_was_expected():
    with pytest.raises(TypeError, match="A result of this library was expected, got the text"):
        said("a text")


def test_a_product_is_asked_of_a_result_that_is_a_list_although_lists_are_known(monkeypatch):
    class Late(list):
        pass

    @by_kind
    def shown(result):
        raise refused(result)

    shown.register(lambda result: "list", list)
    imported = []

    def found(names):
        imported.extend(names)
        shown.register(lambda result: "late", Late)

    monkeypatch.setattr(products, "PRESENTATIONS", ("first", "second"))
    monkeypatch.setattr(products, "modules", found)
    assert shown([1]) == "list"
    assert not imported
    assert shown(Late([1])) == "late"
    assert imported == ["first"]


def test_a_product_is_imported_when_one_of_its_results_is_shown_and_no_sooner(monkeypatch):
    class Late:
        pass

    asked = []

    def imported(names):
        asked.extend(names)
        if names == ("second",):

            def late(result):
                return "late"

            late.__annotations__ = {"result": Late}
            said.register(late)
        return (ModuleType(names[0]),)

    monkeypatch.setattr(products, "PRESENTATIONS", ("first", "second", "third"))
    monkeypatch.setattr(products, "modules", imported)
    assert said(Own()) == "own"
    assert asked == []
    assert said(Late()) == "late"
    assert asked == ["first", "second"]


def test_what_a_result_cannot_be_shown_with_is_told_with_what_it_can():
    with pytest.raises(Refusal, match=r"A Scan cannot be .* 'color'\. Options of its own: none; "):
        ss.text(ss.scan({}), color=True)
