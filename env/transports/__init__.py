"""Ways to reach a tool that is no local function: MCP servers and HTTP plugins, behind the same contract.

Each gives a caller for `Registry.bind(callers={"mcp": ..., "http": ...})`. Whatever goes wrong out there comes back as
a ToolError with a code; nothing else is ever raised. Needs the extra: `pip install -e ".[mcp]"`.
"""
