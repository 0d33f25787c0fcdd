"""What touches the world: databases, indexes, models."""
