"""A small study: the paper's rows from equal starts, several seeds each, and its claims one by one.

`python -m optimrl_jax.study` runs what `plan` lists, pools the records over seeds (`pooled`), asks every claim
(`claims`) and writes tables and a page of text (`report`).
"""
