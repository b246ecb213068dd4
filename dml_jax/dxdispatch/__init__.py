"""DxDispatch's JSON models: `model` parses and checks them, `executor` runs them."""
