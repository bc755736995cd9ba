"""Training of models on the train split. No measuring on dev or test."""
