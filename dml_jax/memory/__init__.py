"""Memory: bindings, buffers, binding tables, compiled operators, available bytes."""
