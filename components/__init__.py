"""What a fact-checking system is made of. Knows nothing of flows, config or tracking."""
