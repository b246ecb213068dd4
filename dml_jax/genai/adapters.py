"""Adapters of a model by name, as the API has them."""

from pathlib import Path

from dml_jax.errors import nearest
from dml_jax.genai.errors import as_genai_errors, refusal
from dml_jax.genai.lora import Adapter
from dml_jax.genai.model import Model


class Adapters:
    """Adapters of `model`, by name. A `Generator` activates one of them."""

    def __init__(self, model: Model):
        self.model = model
        self._models: dict[str, Model] = {}

    def load(self, path: str | Path, name: str) -> None:
        """Read an adapter of PEFT's.

        Args:
            path: its folder, with adapter_model.safetensors and adapter_config.json.
            name: stands for it.

        Raises `GenAIError` for a name that is taken, a file that cannot be read, and products that
        the model has not.
        """
        if name in self._models:
            raise refusal("the name of an adapter", "be one that is not loaded", name)
        if Path(path).suffix == ".onnx_adapter":
            rule = "be a folder of PEFT's (from which an .onnx_adapter is converted)"
            raise refusal("the adapter", rule, str(path))
        with as_genai_errors():
            self._models[name] = self.model.adapted(Adapter.load(path, self.model.folder))

    def unload(self, name: str) -> None:
        """Forget an adapter. Generators that use it go on to. Raises `GenAIError` for no name."""
        _ = self.adapted(name)
        del self._models[name]

    def adapted(self, name: str) -> Model:
        """Return the model with an adapter. Raises `GenAIError` for a name that is not loaded."""
        if name not in self._models:
            rule = f"be one that is loaded{nearest(name, self._models)}"
            raise refusal("the name of an adapter", rule, name)
        return self._models[name]
