"""What a run of a Workspace is made of: specification, variables, policies, annotations, schedule, and how to ask."""
