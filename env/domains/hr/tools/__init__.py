"""The three tools of the HR scenario: one YAML contract and one Python function each."""
