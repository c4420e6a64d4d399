package consensus

import (
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"shardway/node/disk"
	"shardway/node/logs"
)

// Options configure a Raft. A field without a documented zero value is required.
type Options struct {
	// ID is the ID of this server, "node/disk".
	ID string
	// Stream owns the connections. Shutdown closes it.
	Stream *Stream
	// FSM is the replicated state.
	FSM FSM
	// Stores are the Raft stores. The caller closes them after Shutdown.
	Stores *disk.Stores
	// Failed is called once when a store has failed; the node must then stop. It must not block. nil
	// means no call; see also Raft.Failed.
	Failed func(error)
	// Hung is called when a write stalls, and when it completes. It must not block. nil means no call.
	Hung func(bool)
	// Stated is called with the term in a message of a server. The server has this term on its disk. It
	// must not block. nil means no call.
	Stated func(server string, term uint64)
	// Heard is called when a heartbeat of another server has arrived, before the response. It must not
	// block. nil means no call.
	Heard func()
	// Heartbeat is how long a follower waits for a heartbeat. The default is 500 ms.
	Heartbeat time.Duration
	// Election is how long a candidate waits for votes. The default is 500 ms.
	Election time.Duration
	// LeaderLease is how long a leader stays leader without a quorum, at most Heartbeat. The default is
	// 500 ms. The leases of this program do not depend on it, and a shorter value does not elect a new
	// leader sooner. But with a short value, a leader that is delayed by a busy CPU steps down.
	LeaderLease time.Duration
	// Timeout limits one message between servers. The default is 2 s.
	Timeout time.Duration
	// Trailing is the number of entries that are kept after a snapshot, and the number of new entries
	// that trigger the next one. The default is 256.
	Trailing uint64
	// SnapshotInterval is the interval of checks whether a snapshot is due. The default is 30 s.
	SnapshotInterval time.Duration
	// Log receives the messages of this package and, at a lower level, those of the library.
	Log zerolog.Logger
}

// defaults sets the default values of fields that are zero.
func (o *Options) defaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Heartbeat, 500*time.Millisecond)
	def(&o.Election, 500*time.Millisecond)
	def(&o.LeaderLease, 500*time.Millisecond)
	def(&o.Timeout, 2*time.Second)
	def(&o.SnapshotInterval, 30*time.Second)
	if o.Heard == nil {
		o.Heard = func() {}
	}
	if o.Trailing == 0 {
		o.Trailing = 256
	}
}

// commitRepeatInterval is how long (up to twice this value) the leader sends no AppendEntries to a
// follower that has the whole log, apart from heartbeats. The commit index needs no repetition
// (see Nudge), and each repetition wakes both processes. It is for a follower that has missed the
// commit index, in case the leader does not detect this and nudge again.
const commitRepeatInterval = 2 * time.Second

// config returns the settings of the library.
func (o *Options) config(notify chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(o.ID)
	c.HeartbeatTimeout = o.Heartbeat
	c.ElectionTimeout = o.Election
	c.LeaderLeaseTimeout = o.LeaderLease
	c.CommitTimeout = commitRepeatInterval
	c.ShutdownOnRemove = false
	c.TrailingLogs = o.Trailing
	c.SnapshotThreshold = o.Trailing
	c.SnapshotInterval = o.SnapshotInterval
	c.PreVoteDisabled = false
	c.NotifyCh = notify
	c.NoLegacyTelemetry = true
	c.Logger = logs.Hclog(o.Log, "raft")
	return c
}
