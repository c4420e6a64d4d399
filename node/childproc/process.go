package childproc

import (
	"net/netip"
	"time"

	"shardway/proxy/procpool"
	"shardway/shardmap"
)

// State is the state of a process.
type State uint8

// The states of a process.
const (
	Starting State = iota + 1 // about to start, or not accepting requests yet
	Ready                     // it accepts requests
	Stopping                  // it was told to end
	Ended                     // no process of it is left
)

// String returns the name of a state.
func (s State) String() string {
	switch s {
	case Starting:
		return "starting"
	case Ready:
		return "ready"
	case Stopping:
		return "stopping"
	case Ended:
		return "ended"
	}
	return "unknown"
}

// process is one process of the app. Supervisor.mu protects the fields, except the channels and those set at
// creation.
type process struct {
	id     uint64 // in the guard
	target procpool.Target
	epoch  shardmap.Epoch

	state   State
	ready   chan struct{} // closed when state is no longer Starting
	ended   chan struct{} // closed when state is Ended
	spawned chan struct{} // closed when the guard has started the main process

	hasSlot     bool // it counts for Options.Max
	inGuard     bool // the guard has received the command to start it
	isStopWish  bool // stopped by the node, so its end is not a failure
	pid         int
	addr        netip.AddrPort
	dir         string
	startedAt   time.Time
	readyAt     time.Time // zero means that it was never ready
	killAt      time.Time // Stopping: when it gets SIGKILL
	startError  error     // why it was not started or did not become ready; nil if there was no such error
	isTemporary bool      // startError is no failure of the app
}

// failure records that the last processes of a target have failed.
type failure struct {
	count  int       // consecutive failures
	until  time.Time // no process starts before
	reason string
}

// The pause after a failure. The first failure, which may be an accident, has none. Each further failure doubles
// it.
const (
	minPause = 250 * time.Millisecond
	maxPause = 30 * time.Second
	// provenAfter is the time after which a process that was ready counts as successful.
	provenAfter = 10 * time.Second
	// maxFailures is the maximum number of targets whose failures are remembered.
	maxFailures = 4096
)

// pauseAfter returns the pause after a number of consecutive failures.
func pauseAfter(count int) time.Duration {
	if count <= 1 {
		return 0
	}
	pause := minPause
	for range min(count-2, 16) {
		pause *= 2
	}
	return min(pause, maxPause)
}

// Info describes a process for operators.
type Info struct {
	Shard     shardmap.Shard
	Key       string // empty with PerShard
	Epoch     shardmap.Epoch
	State     State
	PID       int // zero means that it was not started yet
	Addr      string
	Dir       string
	StartedAt time.Time
	Idle      time.Duration // time since the last request; zero means that it is in use
}

// Failure describes a key or shard whose processes fail.
type Failure struct {
	Shard  shardmap.Shard
	Key    string
	Count  int
	Reason string
}

// Counts are the counters of a Supervisor.
type Counts struct {
	Started   uint64 // processes that were started
	Failed    uint64 // processes that exited without being stopped by the node, or never became ready
	Killed    uint64 // processes that did not end in time after SIGTERM
	IdleStops uint64 // processes that were stopped because they were not used
	Refused   uint64 // starts that were refused because of Options.Max
}
