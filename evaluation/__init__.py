"""Who plays, how well, and why not: players, records, statistics, failure classes, the report."""
