"""Command lines, config, Prefect tasks and tracking round the components. No method of its own."""
