"""What `ptxas` says about every spelling of every declared instruction, beside what Drywell says."""
