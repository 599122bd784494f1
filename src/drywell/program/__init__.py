"""From a syntax tree to a resolved program: registers numbered, labels linked, every instruction bound to
its declaration and checked.
"""
