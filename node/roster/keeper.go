package roster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/node/consensus"
	"shardway/node/disk"
	"shardway/node/gossip"
	"shardway/shardmap"
)

const (
	// membersEvery is how often the leader compares Raft's configuration with the
	// nodes that gossip shows. One change is made at a time.
	membersEvery = 100 * time.Millisecond
	// restLooks is which of those looks it takes at rest: once nothing was changed for restAfter,
	// which the steps follow that one of them leads to. Each look wakes the leader, too.
	restLooks = 3
	restAfter = 10 * time.Second
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
	every  time.Duration // it looks
	// changed is when it last changed anything, or began.
	changed time.Time
	// promoted is when this leader made each server a voter.
	promoted map[string]time.Time
	// asked is when each server was last asked who it is.
	asked       map[string]time.Time
	unconfirmed unconfirmed

	began   time.Time
	levels  *ack.Levels
	refused map[string]bool // servers that are below the level in force; that was said
	blocked string          // who holds the next level up, as it was said last
	seen    atomic.Pointer[ack.LevelView]
	raises  chan chan<- error // unbuffered
}

// KeeperOptions is what a Keeper is made from.
type KeeperOptions struct {
	Raft   Raft
	Gossip Gossip
	// Who asks a node's process which one it is, and which level it knows.
	Who func(ctx context.Context, node string) (Process, error)
	// Heard returns what the leader has heard of the nodes; false: it is none any
	// more.
	Heard func(ctx context.Context) ([]ack.MemberView, bool)
	// State returns the replicated state.
	State func() State
	// Ready reports that it is no older than what earlier leaders committed.
	Ready func() bool
	// Term is the leadership's. Raise puts an entry into the log and returns when it is
	// applied, or not in the log.
	Term  uint64
	Raise func(entry []byte) error
	// MaxVoters is how many nodes vote at most; Server is the leader's own.
	MaxVoters int
	Server    string
	// RemoveDeadAfter takes out a server that was not heard for so long; zero: none.
	RemoveDeadAfter time.Duration
	// LevelAfter is how long all servers must have known a level before it is raised.
	LevelAfter time.Duration
	// Pulse tells when to look.
	Pulse *clock.Pulse
	Log   zerolog.Logger
}

// State is what an ack.State says of who belongs to the cluster.
type State interface {
	Bootstrapped() bool
	Cluster() string
	Committed() *shardmap.Map
	Level() ack.Level
}

// Raft is what a Keeper changes.
type Raft interface {
	// Configuration returns the latest one in the own log.
	Configuration() []consensus.Server
	AddNonvoter(server string) error
	Promote(server string) error
	Demote(server string) error
	Remove(server string) error
}

// Gossip shows who is there.
type Gossip interface{ Members() []gossip.Member }

// NewKeeper returns the Keeper of one leadership.
func NewKeeper(o KeeperOptions) *Keeper {
	now := time.Now()
	return &Keeper{
		o: o, absent: map[string]time.Duration{}, promoted: map[string]time.Time{}, looked: now, every: membersEvery, changed: now, asked: map[string]time.Time{},
		began: now, levels: ack.NewLevels(o.Term, o.LevelAfter), refused: map[string]bool{}, raises: make(chan chan<- error),
	}
}

// Run returns when ctx ends, or the leadership, which closes done.
func (k *Keeper) Run(ctx context.Context, done <-chan struct{}) {
	t := k.o.Pulse.Every(membersEvery)
	defer t.Stop()
	for tick := 0; ; tick++ {
		select {
		case <-ctx.Done():
			return
		case <-done:
			return
		case <-t.C:
		case answer := <-k.raises:
			answer <- k.raise(ctx, true)
			continue
		}
		k.every = membersEvery
		if time.Since(k.changed) > restAfter {
			k.every *= restLooks
		}
		if tick%int(k.every/membersEvery) != 0 || !k.o.Ready() || !k.o.State().Bootstrapped() {
			continue
		}
		heard, ok := k.o.Heard(ctx)
		for ok && k.change(ctx, heard) {
			k.changed = time.Now()
			heard, ok = k.o.Heard(ctx)
		}
		if ok {
			_ = k.raiseBy(ctx, heard, false) // why not is in the view
		}
	}
}

// change makes the next change and reports whether there may be another.
func (k *Keeper) change(ctx context.Context, heard []ack.MemberView) bool {
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
	k.noteChange(c)
	k.o.Log.Info().Str("server", c.server).Str("change", c.what).Msg("configuration changed")
	return true
}

// look adds up the absence of every server.
func (k *Keeper) look(r View) {
	now := time.Now()
	passed := min(now.Sub(k.looked), 2*k.every)
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
	if len(r.Voters) < k.o.MaxVoters {
		if spare := k.spare(r); spare != "" {
			return change{"promote", spare, k.o.Raft.Promote}
		}
	}
	if surplus := k.surplus(r); surplus != "" {
		return change{"demote", surplus, k.o.Raft.Demote}
	}
	if server := k.replaced(r); server != "" {
		return change{"remove", server, k.o.Raft.Remove}
	}
	return k.dead(r)
}

// surplus returns a voter that there is beyond --max-voters, or "": the place of a dead one is
// filled before that one is taken out, and it may come back between the two. Every voter
// must be heard, so that nobody's vote is needed for another's, and one whose zone has
// another voter is preferred. The leader keeps its vote, and three do.
func (k *Keeper) surplus(r View) string {
	if len(r.Voters) <= max(k.o.MaxVoters, fewestVoters) {
		return ""
	}
	last := ""
	for _, server := range slices.Backward(r.Voters) {
		switch {
		case !r.echoes(server):
			return ""
		case server == k.o.Server:
		case last == "" || r.lone(last) && !r.lone(server):
			last = server
		}
	}
	return last
}

// may reports whether gossip shows a node that this cluster may have.
func (k *Keeper) may(m gossip.Member) bool {
	return m.Node && m.Err == nil && disk.CheckNodeID(m.ID) == nil && m.Status == gossip.Alive && m.Tags.Disk != "" &&
		(m.Tags.Cluster == "" || m.Tags.Cluster == k.o.State().Cluster())
}

// confirmed reports that a node says itself that it has the disk that gossip tells of,
// and a program that this cluster may have.
func (k *Keeper) confirmed(ctx context.Context, m gossip.Member) bool {
	server := consensus.ServerID(m.ID, m.Tags.Disk)
	p, err := k.who(ctx, server)
	if err != errAskedLately { //nolint:errorlint // it is never wrapped
		k.unconfirmed.note(m.ID, err)
	}
	if err != nil || !k.admits(server, p.Level) {
		return false
	}
	delete(k.asked, server)
	return true
}

// errAskedLately is the error of a question that is not asked, because the last one is too recent.
var errAskedLately = errors.New("roster: the node was asked a moment ago")

// who asks a server's node which process it is, now and then. The error says that the node
// does not answer, or has another disk, or is errAskedLately.
func (k *Keeper) who(ctx context.Context, server string) (Process, error) {
	if last, ok := k.asked[server]; ok && time.Since(last) < confirmEvery {
		return Process{}, errAskedLately
	}
	ctx, cancel := context.WithTimeout(ctx, confirmEvery)
	defer cancel()
	p, err := k.o.Who(ctx, nodeOf(server))
	k.asked[server] = time.Now()
	if err == nil && consensus.ServerID(nodeOf(server), p.Disk) == server {
		return p, nil
	}
	k.o.Log.Debug().Err(err).Str("server", server).Str("disk", p.Disk).Msg("server not confirmed by its node")
	if err == nil {
		err = fmt.Errorf("roster: the process there has disk %s", p.Disk)
	}
	return Process{}, err
}

// spare returns a server without a vote that may have one, or "". A lease needs what a
// quorum of the voters has echoed, so one that has not shown that it can would count
// against it from the start. One from a zone in which no voter is heard is preferred:
// the loss of a zone shall leave a quorum. Nobody loses its vote for that.
func (k *Keeper) spare(r View) string {
	first := ""
	for _, server := range r.Others {
		if !r.echoes(server) || !r.caughtUp(server, k.o.State().Committed().Epoch()) {
			continue
		}
		if r.apart(server) {
			return server
		}
		first = cmp.Or(first, server)
	}
	return first
}

// dead picks what is to be done about a server that has been dead for
// remove-dead-after, if that is asked for. The place of a voter is filled first, so
// that there are never fewer; with no spare for it, it goes if enough are left. A
// server without a vote goes unless gossip still shows its node: it would be added
// again.
func (k *Keeper) dead(r View) change {
	if k.o.RemoveDeadAfter <= 0 {
		return change{}
	}
	gone := func(server string) bool { return k.absent[server] > k.o.RemoveDeadAfter }
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
	if spare := k.spare(r); spare != "" && left < min(k.o.MaxVoters, len(r.Voters)) {
		return change{"promote", spare, k.o.Raft.Promote}
	}
	if len(r.Voters) > fewestVoters && heard > len(r.Voters)/2 {
		return change{"remove", r.Voters[i], k.o.Raft.Remove}
	}
	return change{}
}
