"""Where every byte and element lies, as pure integer functions: TMEM addressing, `tcgen05.ld/st/cp`
maps, SMEM and instruction descriptors, swizzles, operand tiles, accumulators, scale factors, and
the named-axis layout notation.

No module here keeps state. Index arrays are NumPy `int64`, read-only and cached: copy before
changing one.
"""
