package consensus

import (
	"time"

	"github.com/hashicorp/raft"
)

// leaderHeartbeatFactor is by how much the heartbeat interval of a leader exceeds that of the
// library.
//
// The Raft library (v1.7.3) has one setting both for how long a follower waits for its leader and
// for the heartbeat interval, which is random between a tenth and a fifth of it. Each heartbeat
// wakes both processes, the timer that sends it usually twice, which is most of the work of an idle
// leader, so a leader uses three times the timeout of its followers. With 500 ms it sends a
// heartbeat every 150 to 300 ms unless the caller triggers one sooner (see Raft.SendHeartbeat,
// called every 97 ms), and starts a timer each time, whose expiry wakes the monitor thread of the
// runtime.
//
// A single lost heartbeat, which TCP retransmits after 200 ms, still does not cause an election,
// and voters that receive heartbeats reject a candidate. It does not make the leader lose contact
// with its followers either, because LeaderLease is as long. The exception is a disk that takes
// more than 300 ms for a write, which triggered heartbeats wait for, if the leader hears no other
// quorum.
const leaderHeartbeatFactor = 3

// writesPerVote is the number of disk writes for which a candidate waits: its own term, and the
// term and the vote of the other server.
const writesPerVote = 3

// maxVoteWait limits how long a candidate waits for votes (up to twice as long) because of its own
// disk. The limit for the disks of other servers is half of it.
const maxVoteWait = 8 * time.Second

// updateTimeouts sets the timeouts of the Raft library for the role of this server and the speed of the
// disks. A leader uses the longest interval; other servers use the configured timeouts, and a
// candidate possibly more. It is called after each change of the role or of the leader, and after
// each write of a term or a vote.
//
// The Raft library starts to wait for votes before it has written the term of the election, and
// selects randomly between an available vote and an expired timeout. With disks that are slower
// than the timeout, three voters would campaign against each other forever. (The requirement
// broadcastTime ≪ electionTimeout includes the write: Ongaro and Ousterhout 2014, 5.6.) Therefore,
// a candidate waits as long as its own disk needs. Because the disks of others may be slower, it
// waits twice as long from the third election on. This is reset once there is a leader, because
// rejected pre-votes use the same timeout.
func (inst *instance) updateTimeouts() {
	inst.timeoutsMu.Lock()
	defer inst.timeoutsMu.Unlock()
	current := inst.ReloadableConfig()
	want := current
	want.HeartbeatTimeout, want.ElectionTimeout = inst.options.HeartbeatTimeout, inst.options.ElectionTimeout
	if inst.leader() != "" {
		inst.termStore.lastWriteTime.Store(0)
		inst.termStore.electionCount.Store(0)
	}
	if inst.State() == raft.Leader { // a leadership transfer uses the election timeout
		want.HeartbeatTimeout *= leaderHeartbeatFactor
	}
	diskWait := writesPerVote * time.Duration(inst.termStore.lastWriteTime.Load())
	backoff := inst.options.ElectionTimeout << min(max(inst.termStore.electionCount.Load()-1, 0), 8)
	want.ElectionTimeout = max(want.ElectionTimeout, want.HeartbeatTimeout, min(diskWait, maxVoteWait), min(backoff, maxVoteWait/2))
	if current == want {
		return
	}
	if err := inst.ReloadConfig(want); err != nil {
		inst.options.Log.Warn().Err(err).Msg("raft timeouts not changed")
	}
}
