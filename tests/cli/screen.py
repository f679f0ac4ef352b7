"""As much of a terminal as the live display needs: what is on the screen after everything was written to it."""

from __future__ import annotations

import re

_PART = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


class Screen:
    """A screen of unlimited width and height."""

    def __init__(self, written: str) -> None:
        self._lines: list[str] = [""]
        self._row = self._column = 0
        self.cursor_shown = True
        for private, numbers, command, move, text in _PART.findall(written):
            if text:
                self._write(text)
            elif move == "\r":
                self._column = 0
            elif move == "\n":
                self._down()
            elif private:
                assert numbers == "25", "only the cursor"
                self.cursor_shown = command == "h"
            elif command == "A":
                self._row -= int(numbers or 1)
            elif command == "C":
                self._column += int(numbers or 1)
            elif command == "J":
                assert numbers == ""
                self._lines[self._row] = self._lines[self._row][: self._column]
                del self._lines[self._row + 1 :]
            elif command == "K":
                assert numbers == "2"
                self._lines[self._row] = ""
            else:
                assert command == "m", command

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in "\n".join(self._lines).rstrip("\n").split("\n")]

    def _write(self, text: str) -> None:
        line = self._lines[self._row].ljust(self._column)
        self._lines[self._row] = line[: self._column] + text + line[self._column + len(text) :]
        self._column += len(text)

    def _down(self) -> None:
        self._row, self._column = self._row + 1, 0
        if self._row == len(self._lines):
            self._lines.append("")
