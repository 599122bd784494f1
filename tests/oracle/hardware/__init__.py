"""Programs whose result words a real NVIDIA GPU gave, and their replay on Drywell."""
