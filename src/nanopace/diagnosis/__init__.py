"""What a run means: Run in, Diagnosis out. Arithmetic only; sentences are in wording."""
