"""Measures of finished predictions, one module each. No step of a system."""
