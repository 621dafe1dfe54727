"""Generated from `proto/master/flight`: the messages of Arrow Flight, and the commands of Flight SQL."""
