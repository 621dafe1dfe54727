"""The evaluation of Sana: twelve long-running queries over streams born at six regions, with and without sharing.

queries  what is asked, in our SQL, planned by the planner's own code
world    regions, links and the rates of the streams, drawn from a seed
fluid    streams as fluids: channels over links, bounded queues, back-pressure
run      queries come one by one, `planner.sharing` says what each shares and where it goes; what came of it
figures  the runs behind each figure; report, the page
"""
