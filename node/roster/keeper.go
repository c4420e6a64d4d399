package roster

import (
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/consensus"
	"shardway/node/disk"
	"shardway/node/gossip"
	"shardway/shardmap"
)

const (
	// membersEvery is how often the leader compares Raft's configuration with the
	// nodes that gossip shows. One change is made at a time.
	membersEvery = 100 * time.Millisecond
	// confirmEvery is how often a node is asked whether it is what gossip says, and
	// for how long.
	confirmEvery = time.Second
	// fewestVoters is how many voters there must be for one to be taken out
	// unasked, not counting that one.
	fewestVoters = 3
)

// Keeper keeps Raft's configuration while this node leads: it adds nodes, makes
// them voters, puts a node's new disk in the place of its old one, and takes out
// who has been dead for long.
//
// Gossip only gives hints: it can be replayed. What it says of a server is acted
// upon once the node has said so itself, on the peer port, and nothing of it takes
// out a server whose own heartbeats come.
type Keeper struct {
	o KeeperOptions
	// absent is for how long each server has not been heard, as far as this leader
	// has looked: a time in which it did not run counts for nobody's absence.
	absent map[string]time.Duration
	looked time.Time
	// asked is when each server that only gossip shows was last asked.
	asked map[string]time.Time
}

// KeeperOptions is what a Keeper is made from.
type KeeperOptions struct {
	Raft   Raft
	Gossip Gossip
	// Who asks a node's process which disk it has.
	Who func(ctx context.Context, node string) (disk string, err error)
	// Heard returns what the leader has heard of the nodes; false: it is none any
	// more.
	Heard func(ctx context.Context) ([]ack.MemberView, bool)
	// State returns the replicated state.
	State func() State
	// Voters is how many nodes vote at most.
	Voters int
	// DeadServerAfter takes out a server that was not heard for so long; zero: none.
	DeadServerAfter time.Duration
	Log             zerolog.Logger
}

// State is what an ack.State says of who belongs to the cluster.
type State interface {
	Born() bool
	Cluster() string
	Committed() *shardmap.Map
}

// Raft is what a Keeper changes.
type Raft interface {
	// Configuration returns the latest one in the own log.
	Configuration() []consensus.Server
	AddNonvoter(server string) error
	Promote(server string) error
	Remove(server string) error
}

// Gossip shows who is there.
type Gossip interface{ Members() []gossip.Member }

// NewKeeper returns the Keeper of one leadership.
func NewKeeper(o KeeperOptions) *Keeper {
	return &Keeper{o: o, absent: map[string]time.Duration{}, looked: time.Now(), asked: map[string]time.Time{}}
}

// Run returns when ctx ends, or the leadership, which closes done.
func (k *Keeper) Run(ctx context.Context, done <-chan struct{}) {
	t := time.NewTicker(membersEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-done:
			return
		case <-t.C:
		}
		for k.o.State().Born() && k.change(ctx) {
		}
	}
}

// change makes the next change and reports whether there may be another.
func (k *Keeper) change(ctx context.Context) bool {
	heard, ok := k.o.Heard(ctx)
	if !ok {
		return false
	}
	r := View{Servers: ServersOf(k.o.Raft.Configuration()), Heard: heard}
	k.look(r)
	c := k.next(ctx, r)
	if c.do == nil {
		return false
	}
	if err := c.do(c.server); err != nil {
		k.o.Log.Warn().Err(err).Str("server", c.server).Str("change", c.what).Msg("configuration not changed")
		return false
	}
	k.o.Log.Info().Str("server", c.server).Str("change", c.what).Msg("configuration changed")
	return true
}

// look adds up the absence of every server.
func (k *Keeper) look(r View) {
	now := time.Now()
	passed := min(now.Sub(k.looked), 2*membersEvery)
	k.looked = now
	before := k.absent
	k.absent = make(map[string]time.Duration, len(before))
	for _, server := range r.All() {
		if !r.hears(server) {
			k.absent[server] = before[server] + passed
		}
	}
}

// change is one step of Raft's configuration.
type change struct {
	what, server string
	do           func(server string) error
}

// next picks the next step: a replaced disk first, then a new server, then a
// voter, then a dead one.
func (k *Keeper) next(ctx context.Context, r View) change {
	all := r.All()
	for _, m := range k.o.Gossip.Members() {
		if !k.may(m) {
			continue
		}
		server := consensus.ServerID(m.ID, m.Tags.Disk)
		if slices.Contains(all, server) {
			continue
		}
		old := r.Of(m.ID)
		if old != "" && (!r.over(old) || !r.spares(old)) || !k.confirmed(ctx, m) {
			continue
		}
		if old != "" {
			// The disk that the old server's log was on is gone: it must not
			// vote again, and its successor starts without a vote.
			return change{"remove", old, k.o.Raft.Remove}
		}
		return change{"add", server, k.o.Raft.AddNonvoter}
	}
	if len(r.Voters) < k.o.Voters {
		if spare := k.spare(r); spare != "" {
			return change{"promote", spare, k.o.Raft.Promote}
		}
	}
	return k.dead(r)
}

// may reports whether gossip shows a node that this cluster may have.
func (k *Keeper) may(m gossip.Member) bool {
	return m.Node && m.Err == nil && disk.CheckNodeID(m.ID) == nil && m.Status == gossip.Alive && m.Tags.Disk != "" &&
		(m.Tags.Cluster == "" || m.Tags.Cluster == k.o.State().Cluster())
}

// confirmed reports that a node says itself that it has the disk that gossip
// tells of. It is asked now and then.
func (k *Keeper) confirmed(ctx context.Context, m gossip.Member) bool {
	server := consensus.ServerID(m.ID, m.Tags.Disk)
	if last, ok := k.asked[server]; ok && time.Since(last) < confirmEvery {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, confirmEvery)
	defer cancel()
	there, err := k.o.Who(ctx, m.ID)
	if err == nil && there == m.Tags.Disk {
		delete(k.asked, server)
		return true
	}
	k.asked[server] = time.Now()
	k.o.Log.Debug().Err(err).Str("server", server).Str("disk", there).Msg("gossip shows a server that its node does not confirm")
	return false
}

// spare returns a server without a vote that may have one, or "". A lease needs what a
// quorum of the voters has echoed, so one that has not shown that it can would count
// against it from the start.
func (k *Keeper) spare(r View) string {
	i := slices.IndexFunc(r.Others, func(server string) bool {
		return r.echoes(server) && r.caughtUp(server, k.o.State().Committed().Epoch())
	})
	if i < 0 {
		return ""
	}
	return r.Others[i]
}

// dead picks what is to be done about a server that has been dead for
// dead-server-after, if that is asked for. The place of a voter is filled first, so
// that there are never fewer; with no spare for it, it goes if enough are left. A
// server without a vote goes unless gossip still shows its node: it would be added
// again.
func (k *Keeper) dead(r View) change {
	if k.o.DeadServerAfter <= 0 {
		return change{}
	}
	gone := func(server string) bool { return k.absent[server] > k.o.DeadServerAfter }
	if i := slices.IndexFunc(r.Others, func(s string) bool { return gone(s) && !alive(k.o.Gossip, nodeOf(s)) }); i >= 0 {
		return change{"remove", r.Others[i], k.o.Raft.Remove}
	}
	i := slices.IndexFunc(r.Voters, gone)
	if i < 0 {
		return change{}
	}
	left, heard := 0, 0
	for _, server := range r.Voters {
		if !gone(server) {
			left++
		}
		if r.hears(server) {
			heard++
		}
	}
	if spare := k.spare(r); spare != "" && left < min(k.o.Voters, len(r.Voters)) {
		return change{"promote", spare, k.o.Raft.Promote}
	}
	if len(r.Voters) > fewestVoters && heard > len(r.Voters)/2 {
		return change{"remove", r.Voters[i], k.o.Raft.Remove}
	}
	return change{}
}
