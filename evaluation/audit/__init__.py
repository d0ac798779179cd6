"""Finds out, before any training, whether a reward can be gamed: enumeration and probes against an oracle of its own.

The oracle (`verdict`) knows the world and reads the plan of an episode; it shares no code with the rewards. The reward
sees payloads only, as a platform would hand them over.
"""
