package process

import (
	"github.com/rs/zerolog"

	"shardway/node/disk"
)

// told returns the log with the node's id on each line, and its cluster's once that is
// known: logs of many nodes end up in one place.
func told(log zerolog.Logger, dir *disk.Dir) zerolog.Logger {
	return log.With().Str("node", dir.Node()).Logger().Hook(cluster{dir})
}

// cluster adds the id of the cluster that a directory belongs to.
type cluster struct{ dir *disk.Dir }

// Run adds it.
func (c cluster) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	if id := c.dir.KnownCluster(); id != "" {
		e.Str("cluster", id)
	}
}
