"""The checker: happens-before over threads and asynchronous operations, and the rules that stand on it."""
