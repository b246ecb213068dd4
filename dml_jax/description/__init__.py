"""The description of an operator: tensors, kinds of fields, support rows, C structures."""
