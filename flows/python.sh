#!/bin/sh
# The project's Python for the stages of dvc.yaml: that of the active environment, or else of .venv,
# so that `.venv/bin/dvc repro` needs nothing activated.
[ -z "$VIRTUAL_ENV" ] && [ -x .venv/bin/python ] && exec .venv/bin/python "$@"
exec python "$@"
