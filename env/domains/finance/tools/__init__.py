"""The tools of the finance domain: one YAML contract and one Python function each."""
