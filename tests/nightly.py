"""Whether the tests take every case (DML_JAX_NIGHTLY=1), or a sample of these."""

import os

NIGHTLY = bool(os.environ.get("DML_JAX_NIGHTLY"))
