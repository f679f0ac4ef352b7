"""What the losses say: the best model, noise, over-fitting, spikes, and where more training would lead."""
