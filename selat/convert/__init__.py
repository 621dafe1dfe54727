"""Between protobuf messages and the values of this package, a module for each subject.

It must not send anything: it has messages and values only.
"""
