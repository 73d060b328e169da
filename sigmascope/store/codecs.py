"""Between the types of the library and the cells of a table."""

import json
import math
from collections.abc import Iterable
from datetime import datetime

import numpy as np
import torch
from torch import Tensor

from sigmascope.records import Estimate, Spectrum
from sigmascope.store.rows import (
    StoredCheck,
    StoredFinding,
    StoredLayer,
    StoredReading,
    StoredSkip,
    StoredSpectrum,
    StoredView,
    StoredWord,
)
from sigmascope.store.shapes import AnyCheck, AnyFinding, AnyLayer, AnyReading, AnySkip, AnySpectrum

Cell = str | int | float | bytes | None
Cells = tuple[Cell, ...]


def strict(number: float) -> float | str:
    """`number` as strict JSON allows it: infinities and nan become words that `float` reads."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def reading(r: AnyReading) -> Cells:
    """Cells of the table `readings`."""
    return (r.site, r.view, r.form, r.quantity, *_estimate(r.estimate))


def spectrum(s: AnySpectrum) -> Cells:
    """Cells of the table `spectra`."""
    rows, cols = s.spectrum.shape
    sigma = _blob(s.spectrum.sigma)
    ends = (_blob(end) for end in (s.spectrum.low, s.spectrum.high))
    kept = (None if end == sigma else end for end in ends)
    return (s.site, s.view, s.form, rows, cols, s.spectrum.how, s.spectrum.risk, sigma, *kept)


def check(c: AnyCheck) -> Cells:
    """Cells of the table `checks`."""
    assumptions = _json([[a.says, a.met] for a in c.assumptions])
    words = (c.theorem, c.source, c.statement, c.site, c.sense, str(c.verdict), assumptions)
    return (*words, *_side(c.measured), *_side(c.limit))


def finding(f: AnyFinding) -> Cells:
    """Cells of the table `findings`."""
    evidence = _json(
        [[c if isinstance(c, str) else strict(c) for c in _plain(r)] for r in f.evidence]
    )
    return (
        f.name,
        f.site,
        f.severity,
        f.says,
        f.source,
        evidence,
        _json(list(f.remedies)),
        f.follows,
    )


def skip(s: AnySkip) -> Cells:
    """Cells of the table `skipped`."""
    return (s.site, s.what, s.why)


def layer(place: AnyLayer) -> Cells:
    """Cells of the table `layers`."""
    return (place.site, place.kind, place.depth, _json(list(place.parameters)))


def as_reading(step: int, time: str, *cells: Cell) -> StoredReading:
    """A row of `readings` as a value."""
    site, view, form, quantity, *numbers = cells
    return StoredReading(
        step, _time(time), _str(site), _str(quantity), _as_estimate(numbers), _str(view), _str(form)
    )


def as_spectrum(
    step: int,
    time: str,
    site: str,
    view: str,
    form: str,
    rows: int,
    cols: int,
    how: str,
    risk: float,
    sigma: bytes,
    low: bytes | None,
    high: bytes | None,
) -> StoredSpectrum:
    """A row of `spectra` as a value."""
    ends = [_tensor(sigma if blob is None else blob) for blob in (low, high)]
    value = Spectrum(_tensor(sigma), (rows, cols), how, *ends, risk=risk)
    return StoredSpectrum(step, _time(time), site, view, form, value)


def as_check(step: int, time: str, *cells: Cell) -> StoredCheck:
    """A row of `checks` as a value."""
    theorem, source, statement, site, sense, verdict, assumptions = map(_str, cells[:7])
    return StoredCheck(
        step,
        _time(time),
        theorem,
        source,
        statement,
        site,
        _as_side(cells[7:12]),
        _as_side(cells[12:]),
        sense,
        tuple(_assumption(*pair) for pair in _listed(assumptions)),
        verdict,
    )


def as_finding(step: int, time: str, *cells: Cell) -> StoredFinding:
    """A row of `findings` as a value."""
    name, site, severity, says, source, evidence, remedies, follows = map(_str, cells)
    shown = tuple(as_reading(step, time, *row) for row in _listed(evidence))
    cures = _words(remedies)
    when = _time(time)
    return StoredFinding(
        step, when, name, site, severity, shown, says, source, cures, follows=follows
    )


def as_skip(step: int, time: str, site: str, what: str, why: str) -> StoredSkip:
    """A row of `skipped` as a value."""
    return StoredSkip(step, _time(time), site, what, why)


def as_layer(step: int, time: str, site: str, kind: str, depth: int, names: str) -> StoredLayer:
    """A row of `layers` as a value."""
    return StoredLayer(step, _time(time), site, kind, depth, _words(names))


def as_view(step: int, time: str, view: str) -> StoredView:
    """A row of `views` as a value."""
    return StoredView(step, _time(time), view)


def as_word(step: int, time: str, name: str, value: str) -> StoredWord:
    """A row of `environment` as a value."""
    return StoredWord(step, _time(time), name, value)


def numbers(blob: bytes) -> list[float]:
    """The float64 values of a blob."""
    return np.frombuffer(blob, "<f8").tolist()


def _plain(r: AnyReading) -> tuple[str | float, ...]:
    return (r.site, r.view, r.form, r.quantity, *_estimate(r.estimate))


def _estimate(e: Estimate) -> tuple[float, float, float, str, float]:
    return (float(e.value), float(e.low), float(e.high), e.how, float(e.risk))


def _as_estimate(cells: Iterable[Cell]) -> Estimate:
    value, low, high, how, risk = cells
    return Estimate(_float(value), _float(low), _float(high), _str(how), _float(risk))


def _side(e: Estimate | None) -> Cells:
    """A side of a check; NULL throughout where the theorem does not apply."""
    return (None,) * 5 if e is None else _estimate(e)


def _as_side(cells: tuple[Cell, ...]) -> Estimate | None:
    return None if all(cell is None for cell in cells) else _as_estimate(cells)


def _blob(values: Tensor) -> bytes:
    return values.detach().cpu().double().numpy().astype("<f8").tobytes()


def _tensor(blob: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(blob, "<f8").astype("=f8"))


def _json(value: list) -> str:
    return json.dumps(value, allow_nan=False)


def _listed(text: str) -> list:
    found = json.loads(text)
    if not isinstance(found, list):
        raise TypeError(f"a list was expected, got {type(found).__name__}")
    return found


def _words(text: str) -> tuple[str, ...]:
    return tuple(map(_str, _listed(text)))


def _assumption(says: Cell, met: bool | None) -> tuple[str, bool | None]:
    if met is not None and not isinstance(met, bool):
        raise TypeError(f"true, false or null was expected, got {met!r}")
    return _str(says), met


def _time(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"a time in UTC was expected, got {text!r}")
    return when


def _str(cell: Cell) -> str:
    if not isinstance(cell, str):
        raise TypeError(f"text was expected, got {type(cell).__name__}")
    return cell


def _float(cell: Cell) -> float:
    if not isinstance(cell, str | int | float):
        raise TypeError(f"a number was expected, got {type(cell).__name__}")
    return float(cell)
