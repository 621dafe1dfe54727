"""Plans statements: from a statement to a checked and placed plan, and from that to a deployment. Nothing is stored
here."""
