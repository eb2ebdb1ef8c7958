"""stub"""

SUMMARY = "stub"
EXAMPLES = "stub"


def add_flags(parser): ...
def run(args):
    return 0
