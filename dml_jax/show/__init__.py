"""What people look at: diagrams, figures, names in other systems, Python source code."""
