"""Opinions about a trajectory: pure functions from what happened to a score. Knows no model and runs no tool."""
