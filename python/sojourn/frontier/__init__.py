"""The frontier: on a path, the least delay at a utilisation that any fixed setting reaches, and disciplines against it.

A fixed setting is a target and an interval of fq_codel, a packet limit for each flow (fq), or a packet limit for all
(pfifo), which does not change during a run. A discipline that adapts is worth something where it reaches points that no
fixed setting reaches, or where it finds by itself the setting that must otherwise be chosen by hand.

`point` has the path, the fixed settings and the plan; `judge` places disciplines against the envelope of the fixed
settings; `grid` reads a file of many points and sums them up; `tables` and `picture` show both.
"""
