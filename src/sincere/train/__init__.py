"""Training: so far, batches larger than memory."""
