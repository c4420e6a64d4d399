package api

import (
	"context"

	"shardway/diagnosis"
)

// CheckupService serves /v1/checkup.
type CheckupService interface {
	// Checkup collects a report from every known node over its peer port. It returns at the latest
	// when ctx ends. If reach is set, each node also connects to the ports of all other nodes, which
	// takes some seconds if one does not respond.
	Checkup(ctx context.Context, reach bool) diagnosis.Checkup
}
