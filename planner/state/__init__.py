"""What becomes of the open rows of merges: in which ranges they are worked on, and which of their runs become one."""
