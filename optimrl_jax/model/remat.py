"""What the backward pass keeps of a decoder block and what it computes again: memory against time.

Pure. Chosen by `model.remat`; the results are the same, the memory of activations is not.
"""

import flax.linen as nn
import jax

from optimrl_jax.model import blockwise

_POLICIES = jax.checkpoint_policies
_BLOCK = _POLICIES.save_only_these_names(blockwise.ATTENDED)
POLICIES = {
    "block": _BLOCK,
    "dots": _POLICIES.save_from_both_policies(_POLICIES.dots_with_no_batch_dims_saveable, _BLOCK),
}


def rematerialized(block: type[nn.Module], remat: str, *, is_unrolled: bool) -> type[nn.Module]:
    """`block` under the policy `remat`: what its backward pass keeps beside the input of the block.

    "none" keeps everything, "block" what blockwise attention found, "dots" also the results of products with weights.
    For blocks that are scanned: there the loop already keeps the compiler from sharing what is computed twice, unless
    it is unrolled.
    """
    if remat == "none":
        return block
    return nn.remat(block, policy=POLICIES[remat], prevent_cse=is_unrolled)
