"""Port: the input of a task, fed by a changing set of channels.

    router --logs--> inputs --epochs--> port.next() --> rows, cursors, watermark
                                        port.acknowledge(cursors) --> router --> producers trim

`watermark` is the rule by which channels' watermarks become the port's; `inputs` what is known of each channel.
"""

from site_agent.port.inputs import Origin, PortInput
from site_agent.port.port import InputRead, Port, PortBatch, Waiting

__all__ = ["InputRead", "Origin", "Port", "PortBatch", "PortInput", "Waiting"]
