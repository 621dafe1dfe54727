"""Plans of clients that speak Spark Connect, made by the classes of Spark's own server, which never listens here."""
