"""Measuring links to other sites.

rates     from arrivals to a rate                   (pure)
train     a burst of packets over UDP
bulk      a stream over TCP, where iperf3 is missing
iperf     iperf3 -J, run as a program
beside    what else came meanwhile, from the kernel
service   ProbeService: both ends of a measurement
"""
