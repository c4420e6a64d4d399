package consensus

import (
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"shardway/node/disk"
	"shardway/node/logs"
)

// Options are the settings of a Raft. Fields without a zero value are required.
type Options struct {
	// ID is this server, "node/disk".
	ID string
	// Stream carries the connections; it is closed by Shutdown.
	Stream *Stream
	// FSM is the replicated state.
	FSM FSM
	// Stores are closed by their owner, after Shutdown.
	Stores *disk.Stores
	// Failed is told, once, of a broken store: the node must stop. It may not
	// block. nil: nobody, see Raft.Failed.
	Failed func(error)
	// Hung is told when a write hangs and when it is through. It may not block.
	// nil: nobody.
	Hung func(bool)
	// Stated is told which Raft term a server says in a message that it is in; that
	// is on its disk. It may not block. nil: nobody.
	Stated func(server string, term uint64)
	// Heard is told that a heartbeat of another server has come, before it is answered. It
	// must not block. Nil: nobody is.
	Heard func()
	// Heartbeat is how long a follower waits for its leader; zero: 500 ms.
	Heartbeat time.Duration
	// Election is how long a candidate waits for votes; zero: 500 ms.
	Election time.Duration
	// LeaderLease is how long a leader stays one without a quorum; zero: 500 ms,
	// no longer than Heartbeat. Leases do not stand on it, and nobody follows sooner
	// if it is shorter; but a leader that a busy CPU holds up for a moment is lost.
	LeaderLease time.Duration
	// Timeout bounds one message between servers; zero: 2 s.
	Timeout time.Duration
	// Trailing is how many entries are kept after a snapshot, and how many make
	// the next one worth taking; zero: 256.
	Trailing uint64
	// SnapshotInterval is how often it is asked whether one is due; zero: 30 s.
	SnapshotInterval time.Duration
	// Log gets this package's lines and, lowered, those of the library.
	Log zerolog.Logger
}

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

// statedAgain is how long, or up to twice that, the leader says nothing of its log to a
// follower that has all of it. Its heartbeats go on beside that. What is committed needs no
// repetition, see Nudge, and each one wakes both sides; it is for a follower that has missed it,
// unless whoever leads hears of that and nudges again.
const statedAgain = 2 * time.Second

// config returns Raft's settings.
func (o *Options) config(notify chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(o.ID)
	c.HeartbeatTimeout = o.Heartbeat
	c.ElectionTimeout = o.Election
	c.LeaderLeaseTimeout = o.LeaderLease
	c.CommitTimeout = statedAgain
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
