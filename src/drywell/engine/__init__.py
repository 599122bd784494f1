"""Who runs when: the interpreter over the lanes of a warp, the scheduler over warps and asynchronous
operations, and the LLVM emitter.
"""
