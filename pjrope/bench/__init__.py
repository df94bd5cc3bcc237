"""What a position costs: paired measurements of every backend, against peers and against none.

``pjrope bench`` runs them. Nothing is imported here, so that ``--help`` answers at once:
:mod:`.settings` says what is measured, :mod:`.run` measures it, :mod:`.report` prints it and
:mod:`.targets` holds what is to be reached.
"""
