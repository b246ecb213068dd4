"""genai_config.json, with what a program puts over it."""

import json
from pathlib import Path
from typing import Any

from dml_jax.genai.errors import as_genai_errors, refusal
from dml_jax.genai.folder import Folder, merge_json
from dml_jax.genai.unsupported import MEMORY


class Config:
    """The genai_config.json of the folder `path`, and what a program puts over it.

    Providers are taken, and change nothing: JAX chooses the device.
    """

    def __init__(self, path: str | Path):
        self._path, self._overlay = str(path), dict[str, Any]()
        _ = self.folder  # says what is wrong with it

    @property
    def folder(self) -> Folder:
        """Return the folder, with the overlay over its genai_config.json."""
        with as_genai_errors():
            return Folder(self._path, self._overlay)

    def overlay(self, text: str) -> None:
        """Put JSON over genai_config.json, member by member."""
        try:
            value = json.loads(text)
        except (json.JSONDecodeError, TypeError) as error:
            raise refusal("the overlay", f"be JSON ({error})", text) from None
        if not isinstance(value, dict):
            raise refusal("the overlay", "be an object", text)
        self._overlay = merge_json(self._overlay, value)

    def set_provider_option(self, *given: Any) -> None:
        """Do nothing: JAX computes, on the device that it chooses."""

    clear_providers = append_provider = set_provider_option
    set_decoder_provider_options_hardware_device_type = set_provider_option
    set_decoder_provider_options_hardware_device_id = set_provider_option
    set_decoder_provider_options_hardware_vendor_id = set_provider_option
    clear_decoder_provider_options_hardware_device_type = set_provider_option
    clear_decoder_provider_options_hardware_device_id = set_provider_option
    clear_decoder_provider_options_hardware_vendor_id = set_provider_option

    add_model_data = remove_model_data = from_package_ep = MEMORY
