"""Readers and writers of published data sets and of the demo. Downloads nothing."""
