package cli_test

import (
	"shardway/admin/api"
)

// becoming is a cluster that starts: each status request returns the next state, and the last one
// repeats.
type becoming struct {
	*cluster

	states []api.Status
}

func (b *becoming) Status() api.Status {
	st := b.states[0]
	if len(b.states) > 1 {
		b.states = b.states[1:]
	}
	return st
}

func comes(states ...api.Status) *becoming { return &becoming{cluster: &cluster{}, states: states} }
