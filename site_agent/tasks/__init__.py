"""Tasks: a stage at this site, run as a loop of epochs.

    SourceTask  poll source -> Spark: filter, join, partial aggregate -> publish epoch with the source's offset
    TableTask   scan once   -> Spark: filter, project, or a map part  -> publish one epoch, end the channel
    ReduceTask  whole inputs -> Spark: once                           -> publish one epoch, end the channel
    MergeTask   port        -> open windows; when some close, Spark: merge, HAVING, top-k -> publish epoch
    SinkTask    port        -> rows of some epochs                    -> one commit of the sink

Output and progress of an epoch are one manifest, published by one rename: after a crash the task goes on from its
channel's last manifest, and what was computed but not published is computed again. A sink's record of commits is a
file of its own, written before and after each of them.
"""
