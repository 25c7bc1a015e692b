"""`barnabas cluster`: the nodes of a cluster, where its replicas are, who leads, and how that is changed."""

from barnabas.commands.cluster import drain, leaders, reassign, status

COMMANDS = (*status.COMMANDS, *leaders.COMMANDS, *drain.COMMANDS, *reassign.COMMANDS)
