"""What follows when an agent's process ends, and for queries of a store that was restored."""
