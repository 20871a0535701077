"""What the Python models of `model_repository/` share. Runs inside Triton's stubs alone."""
