"""Forward and backward pass as a list of kernels: the fast twins of the models."""
