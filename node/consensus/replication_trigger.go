package consensus

import (
	"time"

	"github.com/hashicorp/raft"
)

// announceInterval is the minimum interval between two heartbeats that AnnounceLeader triggers.
const announceInterval = 50 * time.Millisecond

// replicationTrigger makes a leader send a barrier or heartbeats without delaying its callers. Several
// requests during one call of the Raft library are combined.
type replicationTrigger struct {
	barrierRequested   chan struct{} // capacity 1
	heartbeatRequested chan struct{} // capacity 1
	announceLimit      rateLimit     // limits AnnounceLeader
}

// newReplicationTrigger returns a trigger. The caller must start run.
func newReplicationTrigger() *replicationTrigger {
	return &replicationTrigger{
		barrierRequested: make(chan struct{}, 1), heartbeatRequested: make(chan struct{}, 1),
		announceLimit: rateLimit{interval: announceInterval},
	}
}

// run passes the requests to the Raft library of the current instance until stopped is closed.
func (t *replicationTrigger) run(stopped <-chan struct{}, library func() *raft.Raft) {
	for {
		select {
		case <-stopped:
			return
		case <-t.barrierRequested:
			if library().State() == raft.Leader {
				library().Barrier(enqueueTimeout)
			}
		case <-t.heartbeatRequested:
			if library().State() == raft.Leader {
				library().VerifyLeader() // sends heartbeats
			}
		}
	}
}
