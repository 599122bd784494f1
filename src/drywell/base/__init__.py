"""The words every room shares: types, places in a source text, diagnostics, findings, events, errors.
Standard library only.
"""
