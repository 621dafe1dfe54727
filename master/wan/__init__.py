"""The WAN monitor: what is known of every link, kept up by samples that sites report and probes that are made."""
