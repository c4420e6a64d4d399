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
	// OnFailure is called once when a store has failed; the node must then stop. It must not block. nil
	// means no call; see also Raft.Failed.
	OnFailure func(error)
	// OnStall is called when a write stalls, and when it completes. It must not block. nil means no call.
	OnStall func(bool)
	// OnTerm is called with the term in a message of a server. The server has this term on its disk. It
	// must not block. nil means no call.
	OnTerm func(server string, term uint64)
	// OnHeartbeat is called when a heartbeat of another server has arrived, before the response. It must not
	// block. nil means no call.
	OnHeartbeat func()
	// OnSnapshot is called when a snapshot was transferred and installed, with SnapshotSent or SnapshotReceived, its size
	// in bytes and the time that this took. It must not block. nil means no call.
	OnSnapshot func(direction string, size int64, d time.Duration)
	// HeartbeatTimeout is how long a follower waits for a heartbeat. The default is 500 ms.
	HeartbeatTimeout time.Duration
	// ElectionTimeout is how long a candidate waits for votes. The default is 500 ms.
	ElectionTimeout time.Duration
	// LeaderLease is how long a leader stays leader without a quorum, at most Heartbeat. The default is
	// 500 ms. The leases of this program do not depend on it, and a shorter value does not elect a new
	// leader sooner. But with a short value, a leader that is delayed by a busy CPU steps down.
	LeaderLease time.Duration
	// MessageTimeout limits one message between servers. The default is 2 s, or twice ElectionTimeout if that is longer.
	MessageTimeout time.Duration
	// TrailingLogs is the number of entries that are kept after a snapshot, and the number of new entries
	// that trigger the next one. The default is 256.
	TrailingLogs uint64
	// SnapshotInterval is the interval of checks whether a snapshot is due. The default is 30 s.
	SnapshotInterval time.Duration
	// Log receives the messages of this package and, at a lower level, those of the Raft library.
	Log zerolog.Logger
}

// Directions of the transfer of a snapshot.
const (
	SnapshotSent     = "sent"
	SnapshotReceived = "received"
)

// setDefaults sets the default values of fields that are zero.
func (o *Options) setDefaults() {
	setDefault := func(field *time.Duration, value time.Duration) {
		if *field <= 0 {
			*field = value
		}
	}
	setDefault(&o.HeartbeatTimeout, 500*time.Millisecond)
	setDefault(&o.ElectionTimeout, 500*time.Millisecond)
	setDefault(&o.LeaderLease, 500*time.Millisecond)
	setDefault(&o.MessageTimeout, max(2*time.Second, 2*o.ElectionTimeout))
	setDefault(&o.SnapshotInterval, 30*time.Second)
	if o.OnHeartbeat == nil {
		o.OnHeartbeat = func() {}
	}
	if o.OnSnapshot == nil {
		o.OnSnapshot = func(string, int64, time.Duration) {}
	}
	if o.TrailingLogs == 0 {
		o.TrailingLogs = 256
	}
}

// commitRepeatInterval is the interval at which an idle leader repeats its commit index to followers
// that have the whole log. hashicorp/raft waits between one and two intervals. The interval is long
// because each repetition wakes both processes, and Raft.PropagateCommit normally makes it
// unnecessary. It only helps a follower that missed the commit index without the leader noticing.
const commitRepeatInterval = 2 * time.Second

// libraryConfig returns the settings of hashicorp/raft, which sends to roleChanges when this server
// gains or loses leadership.
func (o *Options) libraryConfig(roleChanges chan<- bool) *raft.Config {
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(o.ID)
	config.HeartbeatTimeout = o.HeartbeatTimeout
	config.ElectionTimeout = o.ElectionTimeout
	config.LeaderLeaseTimeout = o.LeaderLease
	config.CommitTimeout = commitRepeatInterval
	config.ShutdownOnRemove = false
	config.TrailingLogs = o.TrailingLogs
	config.SnapshotThreshold = o.TrailingLogs
	config.SnapshotInterval = o.SnapshotInterval
	config.PreVoteDisabled = false
	config.NotifyCh = roleChanges
	config.NoLegacyTelemetry = true
	config.Logger = logs.Hclog(o.Log, "raft")
	return config
}
