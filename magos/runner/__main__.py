"""``python -m magos.runner <stage>``."""

import sys

from magos.runner.main import run_stage

if __name__ == "__main__":
    sys.exit(run_stage(sys.argv[1:]))
