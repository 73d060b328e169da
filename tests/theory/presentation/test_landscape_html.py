import time
from importlib.util import find_spec

import pytest
import torch
from torch.nn import functional as F

from sigmascope import theory
from sigmascope.cli import app
from sigmascope.core.guard import Refusal
from sigmascope.models import networks
from sigmascope.report import json_form
from sigmascope.theory import landscape
from sigmascope.theory.presentation import Scenery
from sigmascope.theory.presentation.landscape_html import _map


@pytest.fixture(scope="module")
def measured():
    g = torch.Generator().manual_seed(0)
    net = networks.mlp(inputs=6, outputs=3, depth=3, width=8, init="he", generator=g)
    x, y = torch.randn(20, 6, generator=g), torch.randint(3, (20,), generator=g)
    say = {"targets": y, "loss": F.cross_entropy}
    found = landscape.what_if(net, x, skip="hidden.1", rhos=[0, 0.5, 1.0], **say)
    scenery = Scenery(
        landscape.curvature(net, x, generator=g, **say),
        landscape.loss_surface(net, x, points=7, generator=g, **say),
        landscape.input_regions(net, x),
    )
    return found, scenery


@pytest.fixture(scope="module")
def written(measured, tmp_path_factory):
    found, scenery = measured
    path = tmp_path_factory.mktemp("page") / "landscape.html"
    about = {"name": "<script>alert(1)</script>"}
    return theory.presentation.landscape_page(
        found, path, scenery=scenery, loss="cross-entropy", about=about
    )


def show(browser, path):
    """Until it is drawn."""
    browser.get(path.as_uri())
    ready = "return document.documentElement.dataset.ready !== undefined"
    for _ in range(200):
        if browser.execute_script(ready):
            return
        time.sleep(0.1)


@pytest.fixture
def shown(browser, written):
    show(browser, written)
    yield browser
    assert browser.get_log("browser") == []


def count(browser, selector):
    return browser.execute_script("return document.querySelectorAll(arguments[0]).length", selector)


def test_every_picture_is_drawn_and_names_of_models_do_nothing(shown, measured):
    assert count(shown, "#conditions .scatterlayer .trace") == 3
    assert count(shown, "#compared .scatterlayer .trace") == 4
    assert count(shown, "#compared .legend .traces") == 4  # few enough to be named
    assert count(shown, "#trajectories .scatterlayer .trace") > 8
    assert count(shown, "#density .scatterlayer .trace") == 3
    assert count(shown, "#slice .contourlayer .contour") == 1
    assert count(shown, "#table tbody tr") == 4
    assert count(shown, "#bends tbody tr") == 1
    assert count(shown, "#map .scatterlayer .trace") > 3
    says = shown.execute_script("return document.getElementById('regions-says').textContent")
    assert f"meets {len(measured[1].regions.partition.polygons)} regions" in says
    title = shown.execute_script("return document.getElementById('model').textContent")
    assert title == "<script>alert(1)</script>"


def test_the_library_that_draws_comes_packed(written):
    assert written.stat().st_size < 2_500_000


def test_the_controls_change_the_pictures(shown):
    before = count(shown, "#map .scatterlayer .trace")
    shown.execute_script("document.getElementById('fills').click()")
    assert count(shown, "#map .scatterlayer .trace") < before
    shown.execute_script("document.getElementById('fills').click()")
    shown.execute_script("document.getElementById('theme').click()")
    assert shown.execute_script("return document.documentElement.dataset.theme") == "dark"
    shown.execute_script(
        "const s = document.getElementById('site'); s.value = 'readout';"
        "s.dispatchEvent(new Event('change'))"
    )
    assert count(shown, "#trajectories .scatterlayer .trace") > 8


def test_what_was_not_measured_is_not_there(browser, tmp_path, measured):
    path = theory.presentation.landscape_page(measured[0][:1], tmp_path / "plain.html")
    show(browser, path)
    for section in ("variants", "curvature", "surface", "regions"):
        for place in (f"#{section}", f"a[href='#{section}']"):
            assert count(browser, f"{place}[hidden]") == 1
    assert count(browser, "#conditions .scatterlayer .trace") == 3
    assert browser.get_log("browser") == []


def test_a_folder_that_is_not_there_is_refused(measured, tmp_path):
    with pytest.raises(FileNotFoundError, match="mkdir -p"):
        theory.presentation.landscape_page(measured[0], tmp_path / "no" / "page.html")


def test_without_plotly_it_says_how_to_get_it_before_anything_is_measured(tmp_path, monkeypatch):
    found = find_spec
    monkeypatch.setattr(
        "sigmascope.report.pages.find_spec",
        lambda name: None if name == "plotly" else found(name),
    )
    measured = []
    monkeypatch.setattr(theory.landscape, "landscape", lambda *a, **k: measured.append(1))
    path = tmp_path / "page.html"
    with pytest.raises(Refusal, match=r"sigmascope\[landscape\]"):
        app(["landscape", "mlp?depth=2&width=8", "--data", "digits", "--html", str(path)])
    assert not measured
    assert not path.exists()


def test_edges_are_named_by_their_activation_counted_from_one(measured):
    form = json_form(measured[1].regions)
    names = [trace["name"] for trace in _map(form)["data"]]
    assert [n for n in names if n.startswith("activation")] == [
        f"activation {k + 1}" for k in range(max(form["by"]), -1, -1)
    ]
