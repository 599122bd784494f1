"""One declaration per instruction, one file per family. Import `drywell.isa.registry` for the whole set."""
