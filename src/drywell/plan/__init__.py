"""Answers without running: does a GEMM configuration fit, how long will it take, and what bounds it."""

from drywell.plan.gemm import Prediction, predict
from drywell.plan.gemm_config import GemmConfig

__all__ = ["GemmConfig", "Prediction", "predict"]
