"""The one error of this room: a layout, shape or field that cannot be, with the place in the text
where there is one.
"""

from __future__ import annotations

from drywell.base.errors import DrywellError


class LayoutError(DrywellError):
    """Something about a layout that cannot be.

    `code` is stable (E04xx); `text` and `column` (counted from 1) are set when a text was being
    read, and are then printed with a caret under the place.
    """

    def __init__(
        self, code: str, message: str, *, text: str = "", column: int = 0, length: int = 1, hint: str = ""
    ) -> None:
        self.code = code
        self.message = message
        self.text = text
        self.column = column
        self.hint = hint
        lines = [f"error[{code}]: {message}"]
        if column:
            lines += [f"  {text}", "  " + " " * (column - 1) + "^" * max(1, length)]
        if hint:
            lines.append(f"  hint: {hint}")
        super().__init__("\n".join(lines))
