"""Where the stages of a query run, and what follows where a site takes no new work."""
