"""Where a writer's bytes go: a temporary file, hashed and counted on the way."""
