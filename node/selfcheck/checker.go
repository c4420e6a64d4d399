package selfcheck

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"shardway/diagnosis"
	"shardway/shardmap"
)

const (
	// ShownFor is how long a contradiction is reported after it was last observed.
	ShownFor = time.Hour
	// maxRemembered is the number of terms and of maps that a Checker remembers.
	maxRemembered = 32
	// notMemberAfter is how long an owner or a leader must not be a member, in addition to the time that the
	// removal of a node takes.
	notMemberAfter = 5 * time.Second
)

// Statement contains the leader and the shard map of a node at one time. Nodes send it to each other.
type Statement struct {
	// Term is a term, and Leader the leader that the node follows in it. Leader is empty if it follows none.
	Term   uint64 `json:"term"`
	Leader string `json:"leader"`
	// Epoch is the epoch of the committed map, and Digest identifies its content. Zero means no map.
	Epoch  shardmap.Epoch `json:"epoch"`
	Digest string         `json:"digest"`
}

// IsValid reports whether a node can have sent the statement. Its texts appear in findings.
func (s Statement) IsValid() bool {
	const digestLen = 64
	isUnprintable := func(c rune) bool { return c <= ' ' || c >= 0x7f }
	return len(s.Leader) <= shardmap.MaxID && !strings.ContainsFunc(s.Leader, isUnprintable) && (s.Digest == "" || len(s.Digest) == digestLen)
}

// DigestOf returns the Digest of a map.
func DigestOf(shardMap *shardmap.Map) string {
	sum := shardMap.Digest()
	return hex.EncodeToString(sum[:])
}

// Members are the members of the cluster according to the log of this node.
type Members struct {
	// Term is the current term, and LogTerm the term of the last entry in the log of this node. If they differ, the
	// log contains no entry of the current leader yet, so the other fields may be out of date.
	Term, LogTerm uint64
	// Leader is the current leader, or empty if there is none.
	Leader string
	// Voters and All are IDs of nodes. All contains the voters.
	Voters, All []string
	// Owners are the nodes to which the newest proposed map assigns shards, if other nodes can get these shards.
	Owners []string
	// RemovalTime is how long the removal of a node may take until the map excludes it.
	RemovalTime time.Duration
}

// Checker finds contradictions. The zero value is ready to use.
type Checker struct {
	leaders history[uint64]
	digests history[shardmap.Epoch]
	last    *shardmap.Map // the last map of this node

	twoLeaders latched[diagnosis.LeaderPair]
	twoOwners  latched[diagnosis.OwnerPair]
	lease      latched[time.Duration]

	term                         uint64 // term of the last members
	ownersMissing, leaderMissing diagnosis.ConditionTimer
}

// sighting is a value and the node that has stated it.
type sighting struct{ value, node string }

// ObserveStatement compares a statement of a node, which may be this one, with all earlier ones.
func (c *Checker) ObserveStatement(now time.Time, node string, statement Statement) {
	if statement.Leader != "" {
		first := c.leaders.remember(statement.Term, sighting{statement.Leader, node})
		if first.value != statement.Leader {
			c.twoLeaders.set(now, diagnosis.LeaderPair{Term: statement.Term, First: first.value, Second: statement.Leader})
		}
	}
	if statement.Epoch != 0 && statement.Digest != "" {
		first := c.digests.remember(statement.Epoch, sighting{statement.Digest, node})
		if first.value != statement.Digest {
			c.twoOwners.set(now, diagnosis.OwnerPair{Epoch: uint64(statement.Epoch), First: first.node, Second: node, IsWholeMap: true})
		}
	}
}

// ObserveMap compares the committed map of this node with the previous one: a shard with a new owner must have a
// higher ownership epoch. The map may have further shards, of a new service.
func (c *Checker) ObserveMap(now time.Time, committed *shardmap.Map) {
	previous := c.last
	c.last = committed
	if previous == nil || previous.Epoch() == 0 || previous.Len() > committed.Len() {
		return
	}
	for i := range committed.Len() {
		shard := shardmap.Shard(i)
		hasSameEpoch := committed.OwnedSince(shard) <= previous.OwnedSince(shard)
		owner, previousOwner := committed.OwnerInstanceID(shard), previous.OwnerInstanceID(shard)
		if hasSameEpoch && owner != previousOwner && owner != "" && previousOwner != "" {
			c.twoOwners.set(now, diagnosis.OwnerPair{
				Shard: uint32(shard), Epoch: uint64(committed.OwnedSince(shard)), First: string(previousOwner), Second: string(owner),
			})
			return
		}
	}
}

// ObserveLease checks that the lease of this node does not end after the latest end that the leader has granted.
// Both are times of one clock.
func (c *Checker) ObserveLease(now time.Time, end, granted time.Duration) {
	if end > granted {
		c.lease.set(now, end-granted)
	}
}

// Report returns the contradictions. members must be zero while the log of this node is behind. A new leader has the
// whole removal time again, because it must wait for the leases that the previous leader has granted.
func (c *Checker) Report(now time.Time, members Members) diagnosis.Contradictions {
	report := diagnosis.Contradictions{LeaseExcess: valueOf(c.lease.get(now))}
	report.TwoLeaders, report.TwoOwners = c.twoLeaders.get(now), c.twoOwners.get(now)
	isCurrent := members.Leader != "" && members.LogTerm == members.Term && members.Term == c.term
	c.term = members.Term
	if !isCurrent {
		members = Members{}
	}
	owners := members.ownersOutside()
	if c.ownersMissing.Update(now, len(owners) > 0) >= members.RemovalTime+notMemberAfter {
		report.OwnersNotMembers = owners
	}
	isLeaderMissing := members.Leader != "" && len(members.Voters) > 0 && !slices.Contains(members.Voters, members.Leader)
	if c.leaderMissing.Update(now, isLeaderMissing) >= notMemberAfter {
		report.LeaderNotMember = members.Leader
	}
	return report
}

// ownersOutside returns the owners of shards that are not members.
func (m *Members) ownersOutside() (owners []string) {
	if len(m.All) == 0 {
		return nil
	}
	isMember := func(owner string) bool { return slices.Contains(m.All, owner) }
	return slices.DeleteFunc(slices.Clone(m.Owners), isMember)
}

// history remembers the first sighting for each of the last maxRemembered keys.
type history[K comparable] struct {
	first map[K]sighting
	order []K
}

// remember returns the first sighting for the key, or seen if there was none.
func (h *history[K]) remember(key K, seen sighting) sighting {
	if first, ok := h.first[key]; ok {
		return first
	}
	if h.first == nil {
		h.first = make(map[K]sighting)
	}
	if len(h.order) == maxRemembered {
		delete(h.first, h.order[0])
		h.order = slices.Delete(h.order, 0, 1)
	}
	h.first[key], h.order = seen, append(h.order, key)
	return seen
}

// latched is a contradiction that is reported for ShownFor.
type latched[V any] struct {
	value *V
	at    time.Time // when it was last observed
}

// set records a contradiction. The first one stays, because it is the cause of later ones.
func (l *latched[V]) set(now time.Time, value V) {
	if l.get(now) == nil {
		l.value = &value
	}
	l.at = now
}

// get returns the contradiction, or nil.
func (l *latched[V]) get(now time.Time) *V {
	if l.value != nil && now.Sub(l.at) >= ShownFor {
		l.value = nil
	}
	return l.value
}

// valueOf returns the value that p points to, or the zero value.
func valueOf[V any](p *V) (value V) {
	if p != nil {
		value = *p
	}
	return value
}
