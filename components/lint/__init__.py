"""The linter of submissions and its repairs. Scores nothing."""
