"""Memory for agent frameworks, over `recall_echo_core`.

Import the adapter of your framework by its module; this package itself imports nothing, so it
never needs a framework that is not there.
"""
