"""Reinforcement learning for code optimization: environments, rewards, simulator, learner and evaluation.

Nothing is imported here: `from optimrl_jax import environment, rewards` needs JAX, the jobs need the extra `learner`.
"""

__version__ = "0.2.0"
