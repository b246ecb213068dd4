"""Which form a decoder of a folder has, as its graph says."""

from jax.sharding import Mesh

from dml_jax.genai.buffered_decoder import BufferedDecoder
from dml_jax.genai.decoder import Decoder
from dml_jax.genai.folder import Folder
from dml_jax.genai.recomputing_decoder import RecomputingDecoder
from dml_jax.genai.right_aligned_decoder import RightAlignedDecoder, counts_places_by_rows


def decoder_of(folder: Folder, keeps_int4: bool = False, mesh: Mesh | None = None) -> Decoder:
    """Return the decoder of a folder, by the form of its keys and values.

    No form runs a token to find out: a graph of GroupQueryAttention writes into its buffers, an
    attention mask hides what is not filled, and places of tokens follow from the mask or from the
    size of the buffer. The arguments are those of `DecoderNetworks`.
    """
    graph, pasts = folder.proto.graph, {past for past, _ in folder.caches}
    readers = {node.op_type for node in graph.node if pasts & set(node.input)}
    if "encoder" not in folder.model and (readers == {"GroupQueryAttention"} or mesh is not None):
        return BufferedDecoder(folder, keeps_int4, mesh)
    inputs = {value.name for value in graph.input}
    if "encoder" in folder.model or folder.names["attention_mask"] not in inputs:
        return RecomputingDecoder(folder, keeps_int4)
    aligned = RightAlignedDecoder(folder, keeps_int4)
    is_told = folder.names["position_ids"] in inputs
    if is_told or not counts_places_by_rows(aligned.networks):
        return aligned
    return RecomputingDecoder(folder, keeps_int4, store=aligned.networks.store)
