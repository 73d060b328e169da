"""Looks in TensorBoard."""

import os
from pathlib import Path
from typing import final

try:
    from torch.utils.tensorboard.writer import SummaryWriter
except ImportError as error:
    raise ImportError(
        "Looks in TensorBoard need tensorboard. `pip install 'sigmascope[tensorboard]'`, or take "
        "`sigmascope.integrations.tables.CSV`, which needs nothing."
    ) from error

from sigmascope.integrations.names import alarm_name, numbers, spectrum_name
from sigmascope.watching import Look

OURS = ".sigmascope"  # ends the names of our files
SECONDS = 10  # between two times at which what was written is brought to the disk


@final
class TensorBoard:
    """A sink that writes scalars, histograms of singular values, and alarms as text.

    In a folder where a run was before, what is written again from some step on takes the place of
    what stood there.

    Args:
        folder: Where event files lie, `runs/gpt`; made at the first look.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._writer: SummaryWriter | None = None

    def write(self, look: Look) -> None:
        """Add one look; alarms are on the disk when this returns, the rest within seconds."""
        if self._writer is None:
            again = any(self.folder.glob(f"*{OURS}"))
            self._writer = SummaryWriter(
                str(self.folder),
                purge_step=look.step if again else None,
                flush_secs=SECONDS,
                filename_suffix=OURS,
            )
        writer = self._writer
        for name, value in numbers(look).items():
            writer.add_scalar(name, value, look.step)
        for s in look.spectra:
            writer.add_histogram(spectrum_name(s), s.spectrum.sigma, look.step)
        for f in look.findings:
            writer.add_text(f"{alarm_name(f)}/says", f"{f.says} {' '.join(f.remedies)}", look.step)
        for s in look.skipped:
            writer.add_text(f"left out/{s.site}", f"{s.what}: {s.why}", look.step)
        if look.findings:
            writer.flush()

    def close(self) -> None:
        """Bring everything to the disk; a later look opens another file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
