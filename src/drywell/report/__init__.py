"""Results as text and JSON: what ran, how its numbers compare, who owned Tensor Memory, what each warp did.
Never an engine.
"""
