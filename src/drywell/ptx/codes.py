"""The codes of everything that can be wrong with the spelling of a PTX text, one line each."""

from __future__ import annotations

CODES: dict[str, str] = {
    # characters and tokens
    "E0101": "a character that PTX does not use outside comments and strings",
    "E0102": "a string that is not closed on its line",
    "E0103": "a `/*` comment that is never closed",
    "E0104": "a number that cannot be read or does not fit 64 bits",
    "E0105": "a file that holds no PTX text: empty, binary, or comments only",
    # the first lines of a module
    "E0106": "`.version` is missing, repeated, or not the first statement",
    "E0107": "`.target` is missing",
    "E0108": "`.version`, `.target` or `.address_size` with arguments that it cannot have",
    # structure
    "E0110": "another token was needed here",
    "E0111": "a statement that does not end in `;`, or a `;` that ends none",
    "E0112": "a `{` that is never closed",
    "E0113": "a `}` that closes nothing",
    "E0114": "a function that begins inside the body of another",
    "E0115": "a statement that stands outside a function body",
    "E0116": "braces, brackets or parentheses nested too deeply",
    # instructions
    "E0120": "an operand that cannot be read",
    "E0121": "an address that cannot be read",
    "E0122": "a constant expression that cannot be computed",
    "E0123": "an opcode that cannot be read",
    # declarations and directives
    "E0130": "a directive that is not known",
    "E0131": "a directive with arguments that it cannot have",
    "E0132": "a directive in a place where it cannot stand",
    "E0133": "a type that PTX does not have",
    "E0134": "a declaration that cannot be read",
    "E0135": "an initialiser that cannot be read",
}
