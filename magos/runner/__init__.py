"""The runner ``magos-job``: PID 1 of every stage container of a plan or apply pod (spec §5.4, §7).

Four stages, one trust level each: ``fetch`` (our code with Git credentials), ``terraform`` (configuration code with
variables and cloud identity), ``render`` (the plan as JSON) and ``job`` (our code; reports by termination message).
"""
