"""What a row must carry to be written. The rooms above supply the types; this one names none."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from sigmascope.records import Estimate, Spectrum

# runtime_checkable throughout: the shape checker of the tests refuses any other protocol.


@runtime_checkable
class AnyReading(Protocol):
    """A quantity at a place."""

    @property
    def site(self) -> str: ...
    @property
    def quantity(self) -> str: ...
    @property
    def estimate(self) -> Estimate: ...
    @property
    def view(self) -> str: ...
    @property
    def form(self) -> str: ...


@runtime_checkable
class AnySpectrum(Protocol):
    """The singular values of a matrix at a place."""

    @property
    def site(self) -> str: ...
    @property
    def view(self) -> str: ...
    @property
    def form(self) -> str: ...
    @property
    def spectrum(self) -> Spectrum: ...


@runtime_checkable
class AnyAssumption(Protocol):
    """One hypothesis of a theorem."""

    @property
    def says(self) -> str: ...
    @property
    def met(self) -> bool | None: ...


@runtime_checkable
class AnyCheck(Protocol):
    """A theorem compared with facts."""

    @property
    def theorem(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def statement(self) -> str: ...
    @property
    def site(self) -> str: ...
    @property
    def measured(self) -> Estimate | None: ...
    @property
    def limit(self) -> Estimate | None: ...
    @property
    def sense(self) -> str: ...
    @property
    def assumptions(self) -> tuple[AnyAssumption, ...]: ...
    @property
    def verdict(self) -> str: ...


@runtime_checkable
class AnyFinding(Protocol):
    """Something worth a reader's attention."""

    @property
    def name(self) -> str: ...
    @property
    def site(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def evidence(self) -> tuple[AnyReading, ...]: ...
    @property
    def says(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def remedies(self) -> tuple[str, ...]: ...
    @property
    def follows(self) -> str: ...


@runtime_checkable
class AnySkip(Protocol):
    """Something not measured."""

    @property
    def site(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def why(self) -> str: ...


@runtime_checkable
class AnyLayer(Protocol):
    """A layer of the model."""

    @property
    def site(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def depth(self) -> int: ...
    @property
    def parameters(self) -> tuple[str, ...]: ...


@runtime_checkable
class AnyProfile(Protocol):
    """Everything measured in one pass."""

    @property
    def readings(self) -> tuple[AnyReading, ...]: ...
    @property
    def checks(self) -> tuple[AnyCheck, ...]: ...
    @property
    def skipped(self) -> tuple[AnySkip, ...]: ...
    @property
    def layers(self) -> tuple[AnyLayer, ...]: ...
    @property
    def spectra(self) -> tuple[AnySpectrum, ...]: ...
    @property
    def about(self) -> Mapping[str, str]: ...
    @property
    def views(self) -> tuple[str, ...]: ...
