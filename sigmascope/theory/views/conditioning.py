"""Readings of how well conditioned learning is in each layer."""

from collections.abc import Iterator

from sigmascope.core import quantities as q
from sigmascope.core.records import Item, Reading, Skipped
from sigmascope.models import Subject
from sigmascope.survey.views.base import ProfileView
from sigmascope.theory.landscape.conditioning import FLAT, layer_curvature

NAME: q.View = "conditioning"


def conditioning_items(subject: Subject) -> Iterator[Item]:
    """Condition number of learning in every layer, and its two factors: layers and data.

    Source:
        Riedi et al. 2022, section 3, corrected.
    """
    found = subject.conditioning
    for site, why in found.silent.items():
        yield Skipped(site, "conditioning", why)
    for c in found.found:
        if float(c.root.sigma[0]) > 0:
            layer = layer_curvature(c)
            yield Reading(c.site, q.CONDITION_OF_LEARNING, layer.condition, NAME)
            yield Reading(c.site, q.LAYER_FACTOR, layer.layer_factor, NAME)
            yield Reading(c.site, q.DATA_FACTOR, layer.data_factor, NAME)
        else:
            yield Skipped(c.site, "conditioning", FLAT)


VIEW = ProfileView("conditioning", conditioning_items)
