"""Tables, plots and submission files made of finished runs. Measures nothing."""
