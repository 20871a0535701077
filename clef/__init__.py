"""The model: a Clef release on disk, its trunk, its joint head, the batch planner, the scheduler. Knows no server."""
