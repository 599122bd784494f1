"""The numbers of one GPU, each with its unit, its source and a tag: SPEC, MEASURED or ASSUMED. Data only."""

from drywell.arch.gpu import Fact, Gpu, Target, load, names, target

__all__ = ["Fact", "Gpu", "Target", "load", "names", "target"]
