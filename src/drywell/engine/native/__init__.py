"""Machine instructions as native code: what compiled regions call instead of leaving to the interpreter."""
