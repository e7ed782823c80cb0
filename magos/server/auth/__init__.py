"""Who makes a request, and what they may do (spec §9.3, §9.4). ``assembly.build`` joins the parts."""
