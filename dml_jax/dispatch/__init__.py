"""DxDispatch's JSON models: parsed and checked (`model`), run (`executor`)."""
