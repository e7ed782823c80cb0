"""What must not go before history has it: records in status, Jobs with their logs, and what deleted Workspaces leave.

Pure throughout; ``magos.adapters.archivist`` stores what is named here and says what is stored (spec §8.2).
"""
