"""GPU kernels. Next to each is a plain twin in torch, and a test checks that they agree."""
