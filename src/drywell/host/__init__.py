"""The outside world: arrays, tensor maps, launches, launch files. What a user calls lives here and is
re-exported by `drywell`.
"""
