"""The JVM under the engine: which Java, the Spark session in it, the sockets it opens, and what its end means."""
