"""One module per scenario: which queries exist and what makes each of them answered rightly."""
