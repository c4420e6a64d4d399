package process

import (
	"github.com/rs/zerolog"

	"shardway/node/disk"
)

// withIDs returns a logger that adds the node ID to each line, and the cluster ID once it is
// known, because the logs of many nodes are often collected in one place.
func withIDs(log zerolog.Logger, dir *disk.Dir) zerolog.Logger {
	return log.With().Str("node", dir.Node()).Logger().Hook(clusterIDHook{dir})
}

// clusterIDHook adds the cluster ID of a data directory to log lines.
type clusterIDHook struct{ dir *disk.Dir }

// Run implements zerolog.Hook.
func (c clusterIDHook) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	if id := c.dir.CachedClusterID(); id != "" {
		e.Str("cluster", id)
	}
}
