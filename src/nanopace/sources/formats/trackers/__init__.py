"""What trackers write, with any trainer: Lightning's CSV, TensorBoard's and W&B's files."""
