"""What pyproject.toml cannot say: `configs` is installed inside the package, as `optimrl_jax.configs`."""

import setuptools

PACKAGES = setuptools.find_namespace_packages(include=["optimrl_jax*", "beam_pipelines*", "sandbox*"])

setuptools.setup(packages=[*PACKAGES, "optimrl_jax.configs"], package_dir={"optimrl_jax.configs": "configs"})
