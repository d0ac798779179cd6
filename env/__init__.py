"""The world that a policy can touch: contracts, registry, simulated companies, episodes. Never imports torch."""
