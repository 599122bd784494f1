"""Questions to a Blackwell GPU, one per open row of DEVIATIONS.md, and the script that asks them."""
