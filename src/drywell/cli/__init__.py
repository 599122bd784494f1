"""The command line: arguments in, the public functions, output. Every command imports what it needs when it
runs.
"""
