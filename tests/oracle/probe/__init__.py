"""The questions of `drywell probe`: how operands were found, and stored answers of GPUs."""
