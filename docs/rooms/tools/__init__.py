"""The tools of the meeting rooms."""
