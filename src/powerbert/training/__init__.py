"""The three training steps, the anytime recipe, and what makes them dependable."""
