"""Listeners to a run: each gets events and keeps what it needs. No opcode, no machine state, no engine."""
