"""The zoo: for each of its 325 instruction forms a valid kernel of our own, launched and checked."""
