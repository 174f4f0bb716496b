"""What the backward pass keeps of a decoder block and what it computes again: memory against time.

Pure. Chosen by `model.remat`; the results are the same, the memory of activations is not.
"""

import flax.linen as nn
import jax

from optimrl_jax.model import blockwise

_DOTS = jax.checkpoint_policies.save_from_both_policies(
    jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    jax.checkpoint_policies.save_only_these_names(blockwise.ATTENDED),
)
# Values: what is kept beside the input of the block; None is nothing.
POLICIES = {"block": None, "dots": _DOTS}


def rematerialized(block: type[nn.Module], remat: str) -> type[nn.Module]:
    """`block` under the policy `remat`: "none" keeps everything, "block" its input alone, "dots" also the results of
    products with weights and of blockwise attention.

    For blocks that are scanned: there the loop already keeps the compiler from sharing what is computed twice.
    """
    if remat == "none":
        return block
    return nn.remat(block, policy=POLICIES[remat], prevent_cse=False)
