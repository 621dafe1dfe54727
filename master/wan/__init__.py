"""The WAN monitor: keeps the figures of every link up to date by samples that sites report and by probes."""
