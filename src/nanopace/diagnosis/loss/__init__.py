"""What the losses show: the best model, noise, overfitting, spikes, and where more training would lead."""
