"""What runs inside a training process: standard library only, never in the way of training."""
