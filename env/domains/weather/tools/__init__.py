"""The tool of the weather domain: a YAML contract and a Python function."""
