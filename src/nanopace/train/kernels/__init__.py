"""GPU kernels. Each has a plain twin in torch beside it, and a test that they agree."""
