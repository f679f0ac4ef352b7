"""What trackers write, whoever trains: Lightning's CSV, TensorBoard's and W&B's files."""
