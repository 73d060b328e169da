"""The pages of theorems and papers: formulas are TeX, hypotheses are those of the code, code prints
what is shown."""

import contextlib
import io
import re
import tomllib
from pathlib import Path

import pytest
import torch

from sigmascope import Subject, theory
from sigmascope.models import networks
from sigmascope.theory import daneshmand2020, riedi2022
from sigmascope.theory.le2022 import conservation
from sigmascope.theory.riedi2022 import random_weights
from sigmascope.theory.riedi2022.random_weights import EdelmanLaw, ResidualLayer

DOCS = Path(__file__).parents[1] / "docs"
PAPERS = tomllib.loads((DOCS / "theorems.toml").read_text(encoding="utf-8"))["paper"]
TOLD = {n: t for p in PAPERS for q in p["question"] for n, t in q["theorems"].items()}
OF_PAPER = [
    (paper["page"], name) for paper in PAPERS for q in paper["question"] for name in q["theorems"]
]
PAGES = [DOCS / "theory" / f"{paper['page']}.md" for paper in PAPERS]
WITH_FORMULAS = [DOCS / "theorems.md", DOCS / "measurements.md", *PAGES]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", flags=re.M | re.S)


@pytest.fixture
def single_precision():
    """What is set in a page lasts no longer than the test."""
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_code_of_a_paper_prints_what_is_shown(page, single_precision):
    """Each block by itself, as it is pasted by who was sent the address of one."""
    for code, shown in BLOCK.findall(page.read_text(encoding="utf-8")):
        torch.set_default_dtype(torch.float32)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, {})
        assert printed.getvalue() == shown, code


def test_every_theorem_is_told_of_once():
    assert len(OF_PAPER) == len(TOLD)
    assert set(TOLD) == {theorem.name for theorem in theory.THEOREMS}


def test_theorems_and_papers_link_to_each_other():
    theorems = (DOCS / "theorems.md").read_text(encoding="utf-8")
    for page, name in OF_PAPER:
        entry = theorems.split(f"#### {name}\n")[1].split("\n#### ")[0]
        assert f"](theory/{page}.md)" in entry, name
        assert f"| [{name}](#{name}) |" in theorems, name
        paper = (DOCS / f"theory/{page}.md").read_text("utf-8")
        assert f"[{name}](../theorems.md#{name})" in paper, name


def formulas(text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`", "", text)
    blocks = re.findall(r"\$\$(.+?)\$\$", text, flags=re.S)
    return blocks + re.findall(r"\$([^$]+)\$", re.sub(r"\$\$.+?\$\$", "", text, flags=re.S))


def fault(tex):
    """What is wrong: a brace, a bracket without its partner, a command that docutils does not know.

    Docutils has less TeX than MathJax: what it takes, the reader's browser takes.
    """
    latex2mathml = pytest.importorskip("docutils.utils.math.latex2mathml")
    bare = tex.replace(r"\{", "").replace(r"\}", "")
    depth = 0
    for sign in bare:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth < 0:
            break
    opened, closed = (len(re.findall(rf"\\(?:[bB]igg?{s[0]}|{s})(?![a-z])", tex)) for s in SIDES)
    if depth or opened != closed:
        return "unbalanced"
    try:
        latex2mathml.tex2mathml(tex)
    except (latex2mathml.MathError, SyntaxError) as error:
        return str(error)
    return ""


SIDES = ("left", "right")


@pytest.mark.parametrize("page", WITH_FORMULAS, ids=lambda p: p.stem)
def test_formulas_are_tex(page):
    found = formulas(page.read_text(encoding="utf-8"))
    assert found
    for tex in found:
        assert not fault(tex), tex


@pytest.mark.parametrize(
    "tex", [r"\frac{1}{2", r"x}_2{", r"\left( x", r"\bigl( x )", r"\sigmma_1", r"\frac"]
)
def test_what_is_no_tex_is_noticed(tex):
    assert fault(tex)


GREEK = {
    "α": "alpha", "γ": "gamma", "δ": "delta", "η": "eta", "θ": "theta", "κ": "kappa",
    "λ": "lambda", "μ": "mu", "ν": "nu", "ρ": "rho", "σ": "sigma", "τ": "tau", "Θ": "Theta",
}  # fmt: skip
RAISED = str.maketrans("₀₁₂₃⁰¹²³⁴ᵢⱼₙ", "012301234ijn")


def test_the_formula_says_what_the_terminal_says():
    """The same Greek letters, digits and relation."""
    for theorem in theory.THEOREMS:
        plain, tex = theorem.statement.translate(RAISED), TOLD[theorem.name]["latex"]
        tex = re.sub(r"\\sum_\{l[^}]*\}(\^\{L\})?", "", tex)  # the terminal has no ranges of sums
        for letter, command in GREEK.items():
            assert (letter in plain) == bool(re.search(rf"\\{command}(?![a-z])", tex)), letter
        assert set(re.findall(r"\d", plain)) == set(re.findall(r"\d", tex)), theorem.name
        for sign, commands in (("≤", r"\\le\b"), ("≥", r"\\ge\b"), ("<", "<"), (">", ">")):
            assert (sign in plain) == bool(re.search(commands, tex)), (theorem.name, sign)


@pytest.mark.parametrize("page", WITH_FORMULAS, ids=lambda p: p.stem)
def test_nothing_is_eaten_as_markup(page):
    """As HTML: no emphasis inside of formulas, no stray colon, backslash, dollar or underscore."""
    core = pytest.importorskip("docutils.core")
    parser = pytest.importorskip("myst_parser.docutils_").Parser()
    html = core.publish_parts(
        page.read_text(encoding="utf-8"),
        parser=parser,
        writer="html5",
        settings_overrides={
            "myst_enable_extensions": ["dollarmath", "colon_fence", "deflist"],
            "report_level": 5,
            "syntax_highlight": "none",  # code is left out below
        },
    )["body"]
    for tag, stop in (("pre", "pre"), ("math", "math"), ('span class="docutils', "span")):
        html = re.sub(rf"<{tag}\b.*?</{stop}>", "code", html, flags=re.S)
    assert "problematic" not in html
    for emphasis in re.findall(r"<em>(.*?)</em>", html, flags=re.S):
        assert re.fullmatch(r"[\w\s,.:&'’-]+", emphasis), emphasis
        assert not re.search(r"[_\d]", emphasis), emphasis
    for line in re.sub(r"<[^>]+>", "", html).splitlines():
        assert not re.search(r"^\s*: |[_\\$]", line), line


def checks():
    """Of every theorem, on facts that are cheap to have."""
    draw = torch.Generator().manual_seed(0)
    batch = torch.randn(3, 4, generator=draw)
    for activation in ("relu", "linear"):
        model = networks.mlp(
            inputs=4, outputs=1, depth=2, width=4, activation=activation, bias=False, generator=draw
        )
        targets = torch.randn(3, 1, generator=draw)
        yield from theory.check(Subject(model, batch, targets, torch.nn.functional.mse_loss))
    yield from theory.check_chain(
        theory.random_chains.BatchNormChain(4, 0.1, generator=draw).run(200)
    )
    yield daneshmand2020.RankOneProducts.known(4).check()
    yield daneshmand2020.LayerDrift.of(torch.eye(3), 0.1, generator=draw).check()
    weights = dict(model.named_parameters())
    found = conservation.invariants(model, batch)
    yield from (d.check() for d in conservation.endpoint_drifts(found, weights, weights))
    M, ones, off = torch.randn(6, 6, generator=draw) / 50, torch.ones(6), torch.arange(6) < 2
    for facts in (
        riedi2022.Skip.of(M),
        riedi2022.Activation.of(M, ones),
        riedi2022.Weights.of([M], [ones], off=off, eta=0.0),
        ResidualLayer.of(M, ones, ones, r=random_weights.weight_spread(6, 1) * 50),
    ):
        yield from riedi2022.checks(facts)
    yield EdelmanLaw.of(list(torch.randn(20, 3, 3, generator=draw))).check()


def test_the_hypotheses_are_those_of_the_code():
    """As many as any check of the theorem asks for; of a network that is none, one says so."""
    asked = {}
    for check in checks():
        known = asked.setdefault(check.theorem, 0)
        asked[check.theorem] = max(known, len(check.assumptions))
    assert asked == {name: len(told["needs"]) for name, told in TOLD.items()}


def test_the_first_page_counts_the_errata():
    index = (DOCS / "theory/index.md").read_text(encoding="utf-8")
    for page in PAGES:
        errata = re.findall(r"^### Erratum (\d+)$", page.read_text(encoding="utf-8"), flags=re.M)
        assert errata == [str(n) for n in range(1, len(errata) + 1)]
        assert re.search(rf"\({page.name}\) .* \| {len(errata)} \|$", index, flags=re.M), page.name


def test_every_erratum_says_where_what_is_printed_and_what_holds():
    for page in PAGES:
        for part in page.read_text(encoding="utf-8").split("\n### Erratum ")[1:]:
            part = part.partition("\n### ")[0].partition("\n## ")[0]
            said = set(re.findall(r"^- \*(\w+):\*", part, flags=re.M))
            assert said >= {"Place", "Printed", "Holds"}, (page.stem, part[:30])
            assert said & {"Counterexample", "Computation"}, (page.stem, part[:30])
            assert "```python" in part, (page.stem, part[:30])
