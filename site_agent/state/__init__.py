"""Open rows of merges beyond memory: runs on the site's disk, and the memory that their copies may take."""
