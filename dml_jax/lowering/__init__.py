"""What the operators compute, as pure functions of arrays. Knows no descriptors."""
