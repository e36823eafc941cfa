"""What can be wrong between a service and whoever asks it."""
