"""`drywell explore`: the page, served on this machine only, with launch files to run and knobs to turn."""
