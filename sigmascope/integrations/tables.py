"""Looks as a table of lines, for whatever reads CSV."""

import csv
import io
import os
import re
from pathlib import Path
from typing import final

from sigmascope.core.guard import Mark, opened, printable, require_target, write_text
from sigmascope.integrations.names import ALARM
from sigmascope.watching import OVER, Look

COLUMNS = ("step", "site", "quantity", "form", "value", "low", "high", "how", "risk")
HEADER = ",".join(COLUMNS) + "\n"
MARK = Mark(re.escape(HEADER.encode()))


@final
class CSV:
    """A sink that appends a line for each reading to a file, whole lines at every look.

    An alarm is a line of the quantity `"alarm"`, its name the form: 1 where it begins and 0 where
    it ends, with its sentence as `how`. A file that is there goes on; a last line that was cut, as
    by a process that was killed, is taken off first.

    Args:
        path: The file. It is made at the first look, so that of several ranks one makes it.

    Raises:
        Refusal: If there is no folder for it, or something that has another first line.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        require_target(self.path, mark=MARK)
        self._file: int | None = None

    def write(self, look: Look) -> None:
        """Append the lines of one look.

        Raises:
            OSError: If they cannot be written; the lines that are there stay whole.
        """
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        for r in look.readings:
            e, words = r.estimate, (printable(r.site), r.quantity, r.form)
            rows.writerow((look.step, *words, e.value, e.low, e.high, printable(e.how), e.risk))
        for f in look.findings:
            on = 0.0 if f.name.endswith(OVER) else 1.0
            words = (printable(f.site), ALARM, f.name.removesuffix(OVER))
            rows.writerow((look.step, *words, on, on, on, printable(f.says), 0.0))
        if self._file is None:
            target = require_target(self.path, mark=MARK)
            if not target.exists() or target.stat().st_size == 0:
                write_text(target, HEADER, mark=MARK)
            whole = 0  # bytes up to the end of the last line that has one
            with opened(target) as lines:
                end = lines.seek(0, os.SEEK_END)
                while end > 0 and not whole:
                    start = max(end - (1 << 16), 0)
                    lines.seek(start)
                    at = lines.read(end - start).rfind(b"\n")
                    whole, end = (start + at + 1 if at >= 0 else 0), start
            file = os.open(target, os.O_RDWR | os.O_APPEND)
            os.ftruncate(file, whole)
            self._file = file
        end = os.lseek(self._file, 0, os.SEEK_END)
        left = text.getvalue().encode("utf-8", "backslashreplace")
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            os.ftruncate(self._file, end)
            raise

    def close(self) -> None:
        """Let go of the file; a later look opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
