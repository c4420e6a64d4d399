package findings

import (
	"shardway/diagnosis"
	"shardway/internal/logsafe"
)

// bootstrapStatus reports whether this node belongs to a cluster (bootstrapped). If it does not, status contains the reason.
func (m *Monitor) bootstrapStatus() (status diagnosis.Bootstrap, bootstrapped bool) {
	if m.options.Bootstrapper().BelongsToCluster() {
		return status, true
	}
	s := m.options.Bootstrapper().Status()
	return diagnosis.Bootstrap{ClusterToJoin: s.ClusterToJoin, MissingBootstrapper: s.MissingBootstrapper, Peers: s.Peers, BootstrapExpect: m.options.BootstrapExpect, HasJoinAddrs: m.options.Joins}, false
}

// joinConflict returns two join addresses that belong to different clusters, or nil if there is no conflict.
func (m *Monitor) joinConflict() *diagnosis.JoinConflict {
	c, found := m.options.Gossip.JoinConflict()
	if !found {
		return nil
	}
	return &diagnosis.JoinConflict{First: diagnosis.JoinTarget(c.First), Second: diagnosis.JoinTarget(c.Second)}
}

// joinAttempts returns the result of the last attempt to join each address of --join.
func (m *Monitor) joinAttempts() (all []diagnosis.JoinAttempt) {
	for _, attempt := range m.options.Gossip.JoinAttempts() {
		all = append(all, diagnosis.JoinAttempt{Addr: attempt.Addr, Why: logsafe.OneLine(attempt.Reason()), OtherSecret: attempt.NeedsSecret(), ReachedSelf: attempt.IsSelf()})
	}
	return all
}
