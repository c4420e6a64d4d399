package ack

import (
	"strings"
	"time"

	"shardway/shardmap"
)

// MaxMessage is the largest encoded Heartbeat or Answer, in bytes.
const MaxMessage = 1536

// Echo names an answer of a leader: a number alone would be read by the next
// leader as its own, later, answer (why 6).
type Echo struct{ Term, Number uint64 }

// Heartbeat is what a node tells the leader every Timing.Heartbeat, and at once
// when it has something to acknowledge or says goodbye.
type Heartbeat struct {
	// Level is what it is written at: the level of the sender's applied state. Zero
	// is MinLevel.
	Level Level
	Node  shardmap.NodeID
	// Server is the node's Raft server id, node/disk: a wiped disk does not
	// confirm for the voter it replaces, nor one node for another.
	Server string
	// Boot orders the starts of a node; Nonce tells two processes with the same
	// boot apart (a copied data directory); Number orders the heartbeats of a boot.
	Boot, Nonce, Number uint64
	// Echo is the newest answer this boot has seen. It is read before Term.
	Echo Echo
	// Term is the node's Raft term.
	Term uint64
	// Applied is the committed epoch the node has applied; Acked the last
	// proposal in the log that this boot has applied and drained for.
	Applied, Acked shardmap.Epoch
	// Every is the time between two heartbeats of the node, to the millisecond: a
	// timing must fit it.
	Every time.Duration
	// Weight is the node's share in the map, Zone where it stands; empty: nowhere.
	Weight uint32
	Zone   string
	// Released is the digest of the Releases with which Acked gives up shards; zero: there
	// are none. The acknowledgement counts once the leader has them.
	Released [32]byte
	// Release is by how much longer its acknowledgements may take because of its app's
	// hooks, to the millisecond; zero without them.
	Release time.Duration
	// Back is within what time a node that has said goodbye comes back, to the
	// millisecond, at most MaxGrace; zero: it does not.
	Back time.Duration
	// NotReleased is the number of shards that moved within the last NotReleasedFor though
	// the node's app had not released them.
	NotReleased uint32
	// NotAcquired is the number of shards of the node whose requests wait because its app has
	// failed to acquire them, or has not responded for long. Unacquired are up to
	// MaxUnacquired shards, ascending, that are to go to another node for that, or that did
	// and are not to come back yet. Unable reports that the app acquires no shard.
	NotAcquired uint32
	Unacquired  []shardmap.Shard
	Unable      bool
	// Kept are up to MaxUnacquired shards, ascending, that stay at the node under a safe drain
	// because its app has not released them; KeepsAll: more than that, so all stay.
	Kept     []shardmap.Shard
	KeepsAll bool
	// AfterRestart and AppSince are what the node reports of its app, see AppReport.
	AfterRestart bool
	AppSince     shardmap.Epoch
	// Keys is the KeysDigest of the key configuration that the node has loaded; zero: none.
	Keys uint64
	// Unhealthy reports that its app does not answer, Leaving that it wants to
	// own nothing, Goodbye that it admits and runs nothing any more, Gateway that
	// it never owns anything.
	Unhealthy, Leaving, Goodbye, Gateway bool
	// App is what else the node knows of the health of its app.
	App AppHealth
}

// Refusal tells a node why its heartbeat did not count.
type Refusal uint8

// The refusals.
const (
	// RefusedBoot: a higher boot of this node is known, of another disk, or another
	// process with the same one. It takes the next one.
	RefusedBoot Refusal = iota + 1
	// RefusedDuplicate: another process with this node's id is connected.
	RefusedDuplicate
	// RefusedRollback: a higher boot of this very disk is known, or another process
	// with the same one. The disk is an older image of itself, or a copy, and its
	// node must stop: what it has promised since is forgotten.
	RefusedRollback
)

// Answer is the leader's answer to one heartbeat.
type Answer struct {
	// Level is the heartbeat's.
	Level Level
	// Term and Number name the answer; Boot and Beat the heartbeat it answers.
	Term, Number, Boot, Beat uint64
	// OK is true if the heartbeat acknowledged the last map proposed; Epoch names
	// that map either way (G5).
	OK    bool
	Epoch shardmap.Epoch
	// Serve is for how long the node may admit requests, and Cut by when it must
	// have cut what it still runs if no other lease follows, both counted from the
	// moment it sent the heartbeat. The node obeys them: it has no timing of its
	// own. Zero: no lease. Lease is the whole lease that Serve is what is left of; a
	// pause of a quarter of it voids this one.
	Serve, Cut, Lease time.Duration
	// MapStays is true if the node is leaving or drained and no other node can take its shards.
	MapStays bool
	// Taken tells that the leader has the releases of which the heartbeat has the digest.
	Taken bool
	// Absences is the index of the last entry on an absence that the leader has applied;
	// zero: it knows of none, or says nothing of that (a refusal; an earlier program). A
	// lease says which maps the node has applied, and nothing of entries after them.
	RestartIndex uint64
	// Refusal is zero unless the heartbeat did not count. Known is a boot above
	// which the node must go or, of a rollback, the boot that is known of its disk;
	// Elsewhere the address of the other process.
	Refusal   Refusal
	Known     uint64
	Elsewhere string
}

const (
	flagUnhealthy = 1 << iota
	flagLeaving
	flagGoodbye
	flagGateway
	flagReleased
	flagUnable
	flagKeepsAll
	flagAfterRestart
)

func flags(set ...bool) byte {
	var f byte
	for i, on := range set {
		if on {
			f |= 1 << i
		}
	}
	return f
}

// MarshalBinary returns the heartbeat as it travels. It does not fail.
func (h Heartbeat) MarshalBinary() ([]byte, error) {
	w := newWriter(h.Level)
	w.text(string(h.Node))
	w.text(h.Server)
	for _, v := range []uint64{h.Boot, h.Nonce, h.Number, h.Echo.Term, h.Echo.Number, h.Term, uint64(h.Applied), uint64(h.Acked), uint64(h.Every.Milliseconds()), uint64(h.Weight), uint64(h.Release.Milliseconds()), uint64(h.Back.Milliseconds()), uint64(h.NotReleased), uint64(h.AppSince), h.Keys} {
		w.uint(v)
	}
	w.text(h.Zone)
	w.byte(flags(h.Unhealthy, h.Leaving, h.Goodbye, h.Gateway, h.Released != [32]byte{}, h.Unable, h.KeepsAll, h.AfterRestart))
	if h.Released != [32]byte{} {
		w.b = append(w.b, h.Released[:]...)
	}
	w.uint(uint64(h.NotAcquired))
	w.shardList(h.Unacquired)
	w.shardList(h.Kept)
	w.byte(flags(h.App.Failing, h.App.Refused, h.App.Starting))
	w.uint(uint64(min(h.App.Falls, maxFlaps)))
	return w.b, nil
}

// UnmarshalBinary reads what MarshalBinary wrote; else ErrCorrupt.
func (h *Heartbeat) UnmarshalBinary(b []byte) error {
	r := reader{b: b}
	*h = Heartbeat{
		Level: r.level(), Node: shardmap.NodeID(r.text(1, maxText)), Server: r.text(0, 2*maxText),
		Boot: r.uint(1, maxUint), Nonce: r.uint(0, maxUint), Number: r.uint(1, maxUint),
		Echo: Echo{Term: r.uint(0, maxUint), Number: r.uint(0, maxUint)}, Term: r.uint(0, maxUint),
		Applied: shardmap.Epoch(r.uint(0, maxUint)), Acked: shardmap.Epoch(r.uint(0, maxUint)),
		Every: time.Duration(r.uint(0, maxUint32)) * time.Millisecond, Weight: uint32(r.uint(1, maxWeight)),
		Release:     time.Duration(r.uint(0, uint64(MaxReleaseTimeout.Milliseconds()))) * time.Millisecond,
		Back:        time.Duration(r.uint(0, uint64(MaxGrace.Milliseconds()))) * time.Millisecond,
		NotReleased: uint32(r.uint(0, MaxShards)), AppSince: shardmap.Epoch(r.uint(0, maxUint)), Keys: r.uint(0, maxUint), Zone: r.text(0, maxText),
	}
	if !strings.HasPrefix(h.Server, string(h.Node)+"/") {
		r.fail("server of another node")
	}
	f := r.byte()
	if f&flagReleased != 0 {
		if copy(h.Released[:], r.take(len(h.Released))); h.Released == [32]byte{} {
			r.fail("a digest of nothing")
		}
	}
	h.NotAcquired, h.Unacquired, h.Unable = uint32(r.uint(0, MaxShards)), r.shardList(), f&flagUnable != 0
	h.Kept, h.KeepsAll = r.shardList(), f&flagKeepsAll != 0
	h.Unhealthy, h.Leaving, h.Goodbye, h.Gateway = f&flagUnhealthy != 0, f&flagLeaving != 0, f&flagGoodbye != 0, f&flagGateway != 0
	app := r.byte()
	if app > 7 {
		r.fail("unknown flag of an app")
	}
	h.App = AppHealth{Failing: app&1 != 0, Refused: app&2 != 0, Starting: app&4 != 0, Falls: uint32(r.uint(0, maxFlaps))}
	h.AfterRestart = f&flagAfterRestart != 0
	if h.Back > 0 && !h.Goodbye {
		r.fail("back before it goes")
	}
	return r.end()
}

// MarshalBinary returns the answer as it travels. It does not fail.
func (a Answer) MarshalBinary() ([]byte, error) {
	w := newWriter(a.Level)
	for _, v := range []uint64{a.Term, a.Number, a.Boot, a.Beat, uint64(a.Epoch)} {
		w.uint(v)
	}
	w.uint(uint64(max(a.Serve, 0)))
	if a.Serve > 0 {
		w.uint(uint64(a.Cut))
		w.uint(uint64(a.Lease))
	}
	w.byte(flags(a.OK, a.MapStays, a.Taken))
	w.byte(byte(a.Refusal))
	// One place for both: before there was Absences, nobody looked at it without a refusal.
	if a.Refusal == 0 {
		w.uint(a.RestartIndex)
	} else {
		w.uint(a.Known)
	}
	w.text(a.Elsewhere[:min(len(a.Elsewhere), 2*maxText)])
	return w.b, nil
}

// UnmarshalBinary reads what MarshalBinary wrote; else ErrCorrupt.
func (a *Answer) UnmarshalBinary(b []byte) error {
	r := reader{b: b}
	*a = Answer{
		Level: r.level(), Term: r.uint(1, maxUint), Number: r.uint(0, maxUint), Boot: r.uint(1, maxUint), Beat: r.uint(1, maxUint),
		Epoch: shardmap.Epoch(r.uint(0, maxUint)), Serve: time.Duration(r.uint(0, uint64(MaxLease))),
	}
	if a.Serve > 0 {
		a.Cut, a.Lease = r.duration(MaxDeadAfter), r.duration(MaxLease)
		if a.Cut < a.Serve || a.Lease < a.Serve {
			r.fail("a lease longer than it may be")
		}
	}
	f := r.byte()
	if f > 7 {
		r.fail("unknown flag")
	}
	a.OK, a.MapStays, a.Taken = f&1 != 0, f&2 != 0, f&4 != 0
	if a.Refusal = Refusal(r.byte()); a.Refusal > RefusedRollback {
		r.fail("unknown refusal")
	}
	known := r.uint(0, maxUint)
	if a.Refusal == 0 {
		a.RestartIndex = known
	} else {
		a.Known = known
	}
	a.Elsewhere = r.text(0, 2*maxText)
	return r.end()
}
