"""Documents to passages, and where they lie for search. No ranking."""
