"""Queries and their references: builders, splits, a strict reader, an oracle. Has no opinion about a trajectory."""
