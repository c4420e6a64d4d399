package ack

import (
	"errors"
	"fmt"

	"shardway/ack/join"
	"shardway/shardmap"
)

// ErrCorrupt reports a log entry or snapshot that no version of this program wrote. The node
// must stop, because its state would silently diverge from that of the other nodes.
var ErrCorrupt = errors.New("ack: corrupt entry")

// State is the replicated state. It is immutable: Apply returns a new one, which shares the parts
// that have not changed. A part must therefore be copied before it is modified.
type State struct {
	// The log.
	index          uint64        // of the last applied entry
	ignoredEntries uint64        // number of entries without an effect
	formatVersion  FormatVersion // in force

	// The cluster.
	clusterID      string  // empty before the bootstrap
	timing         Timing  // in force; zero before the bootstrap
	previousTiming Timing  // the previous one; equals timing if it has never changed
	timingIndex    uint64  // index of the entry that set timing
	policy         *Policy // requests of operators; never nil

	// The maps.
	committed      *shardmap.Map
	proposed       *shardmap.Map // the last proposal; equals committed when none is open
	proposedTerm   uint64        // Raft term in which proposed was proposed
	proposalReason string        // of proposed

	keyConfig      keyConfig
	drops          dropRecords
	formerMembers  formerMembers
	restarts       restartRecords
	previousOwners previousOwners
	releaseRecords releaseRecords
	departures     departures
	services       serviceList
	joins          join.Records
}

// NewState returns the state before the first log entry. It has no cluster, and a map of one
// shard without an owner, because a map has at least one shard.
func NewState() *State {
	m := shardmap.New(1)
	return &State{committed: m, proposed: m, formatVersion: MinFormatVersion, policy: &Policy{}}
}

// Bootstrapped reports whether the id and the number of shards of the cluster are known.
func (s *State) Bootstrapped() bool { return s.clusterID != "" }

// ClusterID returns the id of the cluster, empty before the bootstrap.
func (s *State) ClusterID() string { return s.clusterID }

// Shards returns the number of shards of the committed map, of all services together; zero before the
// bootstrap. It does not change as long as no service is added.
func (s *State) Shards() int {
	if !s.Bootstrapped() {
		return 0
	}
	return s.committed.Len()
}

// Committed returns the committed map: the last proposal with a commit entry, which the leader writes
// once the members have acknowledged. Requests are routed by it. Its epoch is zero before the first
// one.
func (s *State) Committed() *shardmap.Map { return s.committed }

// Proposed returns the last proposal in the log, committed or not. While it is not committed, nodes
// stop serving the shards that it moves.
func (s *State) Proposed() *shardmap.Map { return s.proposed }

// ProposedTerm returns the Raft term in which the last proposal was made.
func (s *State) ProposedTerm() uint64 { return s.proposedTerm }

// ProposalReason returns the reason of the last proposal, as its leader spelled it; empty if there
// is none.
func (s *State) ProposalReason() string { return s.proposalReason }

// HasOpenProposal reports whether the last proposal is not committed.
func (s *State) HasOpenProposal() bool { return s.proposed.Epoch() != s.committed.Epoch() }

// Timing returns the timing (leases and waits of the cluster) in force. It is the zero value before
// the bootstrap.
func (s *State) Timing() Timing { return s.timing }

// PreviousTiming returns the previous timing, or the current one if it never changed.
func (s *State) PreviousTiming() Timing { return s.previousTiming }

// TimingIndex returns the index of the entry that set the timing. The next change must name
// it. Zero before the bootstrap.
func (s *State) TimingIndex() uint64 { return s.timingIndex }

// Index returns the Raft index of the last entry applied.
func (s *State) Index() uint64 { return s.index }

// IgnoredEntries returns the number of entries without an effect, because they came too late.
func (s *State) IgnoredEntries() uint64 { return s.ignoredEntries }

// Outcome is the effect of an entry on the state.
type Outcome uint8

// The outcomes of Apply.
const (
	OutcomeBootstrapped        Outcome = iota + 1 // the entry has created the cluster
	OutcomeProposed                               // there is another last proposal
	OutcomeCommitted                              // the last proposal is committed
	OutcomeIgnored                                // no effect, because the entry came too late
	OutcomeTimingChanged                          // another timing is in force
	OutcomeFormatVersionRaised                    // a higher format version is in force
	OutcomePolicyChanged                          // the policy, or a record about a node, has changed
	OutcomeRestartChanged                         // a restart in place has begun or ended
	OutcomeAppsReported                           // reports about restarts of apps are stored
	OutcomeRegistry                               // the entry is a command for the registry, which the caller applies
	OutcomeJoinChanged                            // the records of join requests have changed
)

// Apply returns the state after the encoded entry command at the given Raft index and term. An
// entry that came too late is ignored and counted. After ErrCorrupt or an unknown format version, s
// is unchanged and the node must stop.
func (s *State) Apply(index, term uint64, command []byte) (*State, Outcome, error) {
	entry, version, err := decodeCommand(command)
	if err == nil && version > s.formatVersion && s.Bootstrapped() { // before the bootstrap, no other entry counts
		err = fmt.Errorf("%w: format version %d before its log entry", ErrCorrupt, version)
	}
	if err != nil {
		return s, 0, fmt.Errorf("log entry %d: %w", index, err)
	}
	next := *s
	next.index = index
	switch entry := entry.(type) {
	case bootstrapEntry:
		return next.applyBootstrap(version, entry)
	case ProposalEntry:
		return next.applyProposal(term, entry)
	case CommitEntry:
		return next.applyCommit(term, entry)
	case TimingEntry:
		return next.applyTiming(term, entry)
	case PolicyEntry:
		return next.applyPolicy(term, entry)
	case RestartEntry:
		return next.applyRestart(term, entry)
	case AppReportEntry:
		return next.applyAppReports(term, entry)
	case registryEntry:
		return next.applyRegistry()
	case JoinEntry:
		return next.applyJoin(term, entry)
	case FormatVersionEntry:
		raised, outcome, err := next.applyFormatVersion(term, entry)
		if err != nil {
			return s, 0, fmt.Errorf("log entry %d: %w", index, err)
		}
		return raised, outcome, nil
	default:
		return s, 0, fmt.Errorf("log entry %d: %w", index, ErrCorrupt)
	}
}

// The following methods modify the copy that Apply has made.

// ignore counts an entry that has no effect.
func (s *State) ignore() (*State, Outcome, error) {
	s.ignoredEntries++
	return s, OutcomeIgnored, nil
}

// applyBootstrap creates the cluster, with a map of orphaned shards. Only the first bootstrap entry
// of a log counts. Its format version is in force from then on.
func (s *State) applyBootstrap(version FormatVersion, entry bootstrapEntry) (*State, Outcome, error) {
	if s.Bootstrapped() {
		return s.ignore()
	}
	s.clusterID, s.formatVersion = entry.clusterID, version
	s.committed = shardmap.New(entry.shards)
	s.proposed = s.committed
	first := shardmap.Shard(0)
	for _, spec := range entry.services {
		s.services = s.services.with(spec.Name, first, spec.Shards)
		first += shardmap.Shard(spec.Shards)
	}
	s.timing, s.previousTiming, s.timingIndex = entry.timing, entry.timing, s.index
	return s, OutcomeBootstrapped, nil
}

// applyTiming replaces the timing, if the leader of the current term has submitted the entry.
// That leader knows under which timing it granted which leases. A later leader does not. After
// two changes in a row, leases of the first timing could remain for which no leader waits.
func (s *State) applyTiming(term uint64, entry TimingEntry) (*State, Outcome, error) {
	if !s.Bootstrapped() || term != entry.Term || entry.Replaces != s.timingIndex {
		return s.ignore()
	}
	s.previousTiming, s.timing, s.timingIndex = s.timing, entry.Timing, s.index
	return s, OutcomeTimingChanged, nil
}

// applyProposal applies a proposal if it is based on the committed map (rule 2) and was submitted by
// the leader of the current term. Otherwise the proposal is ignored: a delayed proposal may enter the
// log when its leader leads again, terms later. The state, not the leader, sets the ownership epochs.
// See reason 9 of docs/internals/protocol-reasons.md.
func (s *State) applyProposal(term uint64, proposal ProposalEntry) (*State, Outcome, error) {
	if !s.Bootstrapped() || proposal.Term != term || proposal.Base != s.committed.Epoch() || !s.hasShards(proposal.Want) {
		return s.ignore()
	}
	epoch := shardmap.Epoch(s.index)
	s.proposed = proposal.Want.WithEpoch(s.committed, epoch)
	s.proposedTerm, s.proposalReason = term, proposal.Reason
	s.keyConfig.propose(proposal.KeyConfig)
	s.drops = s.drops.withProposal(s.proposed, proposal.Drops)
	for _, record := range proposal.Drops {
		if !s.proposed.IsMember(record.Node) {
			s.restarts.end(record.Node, s.index)
		}
	}
	return s, OutcomeProposed, nil
}

// hasShards reports whether a map has the shards of the cluster: all shards of the committed map, and no
// more than the ranges of the services need.
func (s *State) hasShards(m *shardmap.Map) bool {
	return m.Len() >= s.committed.Len() && m.Len() <= s.maxMapLength()
}

// applyCommit applies a commit only if it is for the last proposal, and only in the term of that
// proposal. The leader of that term decided on the commit from the leases that it had granted.
// Before a later term, another leader may have granted leases for the old map.
func (s *State) applyCommit(term uint64, entry CommitEntry) (*State, Outcome, error) {
	namesProposal := entry.Epoch == s.proposed.Epoch() && entry.Digest == s.proposed.Digest()
	if !s.HasOpenProposal() || term != s.proposedTerm || !namesProposal {
		return s.ignore()
	}
	// The records compare both maps, so they come before the new committed map.
	s.previousOwners = s.previousOwners.withCommit(s.committed, s.proposed, entry.Released)
	s.releaseRecords.recordMoves(s.committed, s.proposed, entry)
	s.departures.recordMoves(s.committed, s.proposed)
	s.formerMembers = s.formerMembers.withCommit(s.committed, s.proposed)
	s.committed = s.proposed
	s.keyConfig.commit(s.committed.Epoch())
	s.restarts.removeOthers(s.committed, s.index)
	return s, OutcomeCommitted, nil
}
