package ack

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"shardway/shardmap"
)

// ErrCorrupt reports a log entry or snapshot that no version of this program
// wrote. A node that meets one must stop: going on, it would differ from the
// others without knowing.
var ErrCorrupt = errors.New("ack: corrupt entry")

// maxDrops bounds how many drop records a State keeps; the oldest that is not in
// force goes first.
const maxDrops = 4096

// Cause tells why a node was dropped from the map.
type Cause uint8

// The causes of a drop.
const (
	CauseSilent Cause = iota + 1
	CauseCrashed
	CauseMissedAck
	CauseBehind
	CauseRemoved
)

var causeNames = [...]string{CauseSilent: "silent", CauseCrashed: "crashed", CauseMissedAck: "missed-ack", CauseBehind: "behind", CauseRemoved: "removed"}

// String returns the cause as logs and metrics spell it.
func (c Cause) String() string {
	if c == 0 || int(c) >= len(causeNames) {
		return fmt.Sprintf("Cause(%d)", uint8(c))
	}
	return causeNames[c]
}

// slow reports whether a node dropped for c was heard but did not follow: it
// must show first that it follows again.
func (c Cause) missedRound() bool { return c == CauseMissedAck || c == CauseBehind }

// Drop is what the log remembers about a node that was left out of a map.
type Drop struct {
	// Epoch names the proposal that left it out.
	Epoch shardmap.Epoch
	Cause Cause
	// Strikes counts its missed acknowledgements in a row.
	Strikes uint32
	// InForce is true until a proposal has the node again.
	InForce bool
}

// State is the replicated state. It never changes: Apply returns a new one.
type State struct {
	cluster         string
	committed       *shardmap.Map
	last            *shardmap.Map // the last proposal; == committed when none is open
	lastTerm        uint64
	reason          string // of last
	drops           map[shardmap.NodeID]Drop
	previous        []shardmap.NodeID              // by shard: who owned it before its present owner; nil: nobody
	releaseNotes    map[shardmap.Shard]releaseNote // with which releases shards came to their owners
	keptNotes       map[shardmap.Shard]releaseNote // and with which their owners restart in place
	timing          Timing                         // in force; zero before the birth
	timingBefore    Timing                         // in force before it; == timing when it has never changed
	timingIndex     uint64                         // index of the entry that set timing
	index           uint64
	ignored         uint64
	level           Level // in force
	policy          *Policy
	restarts        map[shardmap.NodeID]Restart
	restartsIndex   uint64                               // index of the entry that changed absences last
	departures      map[shardmap.NodeID][]departedShards // what has left nodes whose apps must restart first, oldest first
	formerMembers   map[shardmap.NodeID]shardmap.Epoch   // former members, and the map without them
	departuresIndex uint64                               // index of the entry, other than a commit, that changed apps last
	keys            string                               // the active key configuration; empty before the first map
	keysSince       shardmap.Epoch
	proposedKeys    string // of the open proposal; empty: it changes none
}

// NewState returns the state before the first log entry: no cluster, and a map
// of one shard that nobody owns, because there is none of zero.
func NewState() *State {
	m := shardmap.New(1)
	return &State{committed: m, last: m, level: MinLevel, policy: &Policy{}}
}

// Born reports whether the cluster's id and number of shards are known.
func (s *State) Bootstrapped() bool { return s.cluster != "" }

// Cluster returns the cluster's id, empty before its birth.
func (s *State) Cluster() string { return s.cluster }

// Shards returns the number of shards, fixed at birth; zero before it.
func (s *State) Shards() int {
	if !s.Bootstrapped() {
		return 0
	}
	return s.committed.Len()
}

// Committed returns the map that routes. Its epoch is zero before the first.
func (s *State) Committed() *shardmap.Map { return s.committed }

// Last returns the last proposal in the log, committed or not.
func (s *State) Last() *shardmap.Map { return s.last }

// LastTerm returns the Raft term in which Last was proposed.
func (s *State) LastTerm() uint64 { return s.lastTerm }

// Reason returns why Last was proposed, in the words of its leader; empty: it was not.
func (s *State) Reason() string { return s.reason }

// Open reports whether the last proposal is not committed.
func (s *State) Open() bool { return s.last.Epoch() != s.committed.Epoch() }

// Drop returns what is remembered about node's last drop.
func (s *State) Drop(node shardmap.NodeID) (Drop, bool) {
	d, ok := s.drops[node]
	return d, ok
}

// Dropped reports whether a drop of node is in force.
func (s *State) Dropped(node shardmap.NodeID) bool { return s.drops[node].InForce }

// Timing returns the timing in force, the zero value before the birth.
func (s *State) Timing() Timing { return s.timing }

// TimingBefore returns the timing that was in force before, the same one if it
// never changed.
func (s *State) TimingBefore() Timing { return s.timingBefore }

// TimingSince returns the index of the entry that set the timing in force, which
// the next change must name; zero before the birth.
func (s *State) TimingSince() uint64 { return s.timingIndex }

// Index returns the Raft index of the last entry applied.
func (s *State) Index() uint64 { return s.index }

// Ignored counts the entries that came too late to count.
func (s *State) Ignored() uint64 { return s.ignored }

// Outcome tells what an entry did.
type Outcome uint8

// The outcomes of Apply.
const (
	OutcomeBootstrapped Outcome = iota + 1
	OutcomeProposed
	OutcomeCommitted
	OutcomeIgnored
	OutcomeTimingChanged
	OutcomeLevelRaised
	OutcomePolicyChanged
	OutcomeRestartChanged
	OutcomeAppsReported
)

// Apply returns the state after the entry cmd at the given Raft index and term.
// An entry that comes too late is ignored and counted. ErrCorrupt, or an entry
// of an unknown level, leaves s as it was: the node must stop.
func (s *State) Apply(index, term uint64, cmd []byte) (*State, Outcome, error) {
	c, at, err := decodeCommand(cmd)
	if err == nil && at > s.level {
		err = fmt.Errorf("%w: level %d before the log says so", ErrCorrupt, at)
	}
	if err != nil {
		return s, 0, fmt.Errorf("log entry %d: %w", index, err)
	}
	n := *s
	n.index = index
	switch c := c.(type) {
	case bootstrapEntry:
		return n.applyBootstrap(c)
	case proposal:
		return n.applyProposal(term, c)
	case commit:
		return n.applyCommit(term, c)
	case timingEntry:
		return n.applyTiming(term, c)
	case policyEntry:
		return n.applyPolicy(term, c)
	case restartEntry:
		return n.applyRestart(term, c)
	case appReportEntry:
		return n.applyAppReports(term, c)
	case levelEntry:
		next, outcome, err := n.applyLevel(term, c)
		if err != nil {
			return s, 0, fmt.Errorf("log entry %d: %w", index, err)
		}
		return next, outcome, nil
	default:
		return s, 0, fmt.Errorf("log entry %d: %w", index, ErrCorrupt)
	}
}

// The methods below change the copy that Apply made.

func (s *State) ignore() (*State, Outcome, error) {
	s.ignored++
	return s, OutcomeIgnored, nil
}

func (s *State) applyBootstrap(c bootstrapEntry) (*State, Outcome, error) {
	if s.Bootstrapped() {
		return s.ignore()
	}
	s.cluster = c.cluster
	s.committed = shardmap.New(c.shards)
	s.last = s.committed
	s.timing, s.timingBefore, s.timingIndex = c.timing, c.timing, s.index
	return s, OutcomeBootstrapped, nil
}

// retimed takes a timing that replaces the one in force, by the leader of the term
// that put it into the log. That leader knows what was granted by which timing, and
// for how long it has been so; a later one does not, and two changes at once would
// have leases by a timing that nobody waits for.
func (s *State) applyTiming(term uint64, c timingEntry) (*State, Outcome, error) {
	if !s.Bootstrapped() || term != c.term || c.replaces != s.timingIndex {
		return s.ignore()
	}
	s.timingBefore, s.timing, s.timingIndex = s.timing, c.timing, s.index
	return s, OutcomeTimingChanged, nil
}

// proposed takes a proposal if it was computed from the map that routes now
// (rule 2, why 9), by the leader of the term that put it into the log: one that
// was late may enter when its proposer leads again, terms later. The state, not
// the proposer, sets ownership epochs.
func (s *State) applyProposal(term uint64, c proposal) (*State, Outcome, error) {
	if !s.Bootstrapped() || c.term != term || c.base != s.committed.Epoch() || c.want.Len() != s.committed.Len() {
		return s.ignore()
	}
	epoch := shardmap.Epoch(s.index)
	s.last = c.want.Settle(s.committed, epoch)
	s.lastTerm, s.reason = term, c.reason
	s.setProposedKeys(c.keys)
	s.drops = maps.Clone(s.drops)
	if s.drops == nil {
		s.drops = map[shardmap.NodeID]Drop{}
	}
	for _, m := range s.last.Members() {
		if d, ok := s.drops[m.ID]; ok {
			d.InForce = false
			s.drops[m.ID] = d
		}
	}
	for _, d := range c.drops {
		if !s.last.Has(d.node) {
			s.drops[d.node] = Drop{Epoch: epoch, Cause: d.cause, Strikes: d.strikes, InForce: true}
			s.endRestart(d.node)
		}
	}
	s.boundDrops()
	return s, OutcomeProposed, nil
}

// commit takes a commit only of the very map proposed last, and only in the term
// that proposed it. The proposer knew who may serve; it may have lost leadership
// since, and others may have granted leases, before its commit entered the log.
func (s *State) applyCommit(term uint64, c commit) (*State, Outcome, error) {
	if !s.Open() || term != s.lastTerm || c.epoch != s.last.Epoch() || c.digest != s.last.Digest() {
		return s.ignore()
	}
	s.recordPreviousOwners(c.released)
	s.recordReleases(c)
	s.recordDepartures()
	s.recordFormerMembers()
	s.committed = s.last
	s.commitKeys()
	s.boundRestarts()
	return s, OutcomeCommitted, nil
}

// forgetDrops keeps the records bounded, the same way on every node.
func (s *State) boundDrops() {
	if len(s.drops) <= maxDrops {
		return
	}
	rank := func(d Drop) int {
		if d.InForce {
			return 1
		}
		return 0
	}
	ids := slices.SortedFunc(maps.Keys(s.drops), func(a, b shardmap.NodeID) int {
		da, db := s.drops[a], s.drops[b]
		return cmp.Or(cmp.Compare(rank(da), rank(db)), cmp.Compare(da.Epoch, db.Epoch), cmp.Compare(a, b))
	})
	for _, id := range ids[:len(ids)-maxDrops] {
		delete(s.drops, id)
	}
}
