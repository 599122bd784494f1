"""What `ptxas` says about every spelling of every declared instruction, and how Drywell's verdict compares."""
