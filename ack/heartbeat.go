package ack

import (
	"strings"
	"time"

	"shardway/shardmap"
)

// MaxMessage is the maximum size of an encoded Heartbeat or Answer, in bytes.
const MaxMessage = 4608

// MaxUnacquired is the maximum length of Heartbeat.UnacquiredShards and of Heartbeat.KeptShards.
const MaxUnacquired = 256

// MaxUnreachable is the maximum length of Heartbeat.Unreachable.
const MaxUnreachable = 32

// Echo identifies a response of a leader. With the number alone, the next leader could mistake the
// echo for one of its own later responses. See reason 6 of docs/internals/protocol-reasons.md.
type Echo struct{ Term, Number uint64 }

// Heartbeat is the message that a node sends to the leader every Pace.Heartbeat, and
// immediately when it acknowledges a proposal or says goodbye. A goodbye is the statement of a
// stopping process that it has stopped serving permanently.
type Heartbeat struct {
	// FormatVersion is the format version of the encoding: that of the applied state of the sender.
	// Zero means MinFormatVersion.
	FormatVersion FormatVersion

	// Identity of the process.

	Node shardmap.NodeID
	// Server is the Raft server id of the node, in the form node/disk. It prevents a node with
	// a wiped disk from confirming the leader in place of the voter that had used the disk.
	Server string
	// Boot is the incarnation number, which increases with each start of the node.
	Boot uint64
	// Nonce is a random number that distinguishes two processes with the same boot (a copied data
	// directory).
	Nonce uint64
	// Zone is the zone of the node; empty means none.
	Zone string
	// Gateway is set if the node never owns shards.
	Gateway bool

	// Proof of leadership.

	// Number is the sequence number of the heartbeat within the boot.
	Number uint64
	// Echo is the newest answer that this boot has received. It is read before Term.
	Echo Echo
	// Term is the Raft term of the node.
	Term uint64
	// Interval is the heartbeat interval of the node, in whole milliseconds. A change of the timing
	// must be compatible with the interval of every node.
	Interval time.Duration

	// Progress of the map change.

	// Applied is the committed epoch that the node has applied.
	Applied shardmap.Epoch
	// Acked is the last proposal that this boot has applied and drained for.
	Acked shardmap.Epoch
	// ReleasesDigest is the digest of the Releases that belong to Acked; zero means none. The
	// acknowledgement counts once the leader has received them.
	ReleasesDigest [32]byte
	// ReleaseTime is the additional time that acknowledgements may take because of hooks, in whole
	// milliseconds; zero without hooks.
	ReleaseTime time.Duration

	// State of the node.

	// Weight is the weight of the node in the map.
	Weight uint32
	// Leaving is set if the node should own no shards.
	Leaving bool
	// Goodbye is set if its process has stopped admitting and running requests.
	Goodbye bool
	// RestartWithin is the time within which a node that has sent a goodbye restarts, in whole
	// milliseconds, at most MaxGrace; zero means that it does not.
	RestartWithin time.Duration
	// Roles are the roles of the node, sorted, up to MaxRoles; empty before RolesFormatVersion is in force.
	Roles []string
	// KeyConfigDigest is the digest of the key configuration that the node has loaded; zero means
	// none. Function KeyConfigDigest computes it.
	KeyConfigDigest uint64

	// State of the app.

	// Unhealthy is set if the app does not respond.
	Unhealthy bool
	// App contains further results of the health checks of the app.
	App AppHealth
	// ReturnsNeedRestart is set if shards that left the app return only after it has restarted. It
	// becomes part of an AppReport.
	ReturnsNeedRestart bool
	// AppStartedAfter is the epoch of a committed map that the node had applied before the app
	// process served any request; zero means unknown. It becomes part of an AppReport.
	AppStartedAfter shardmap.Epoch
	// Instances are the app instances that may own shards; zero for a node with one instance, and
	// before InstancesFormatVersion is in force.
	Instances shardmap.InstanceSet
	// InstancesStartedAfter contains AppStartedAfter of each instance after the first one. It is
	// empty for a node with one instance.
	InstancesStartedAfter []shardmap.Epoch
	// UnhealthyInstances are the configured instances that do not respond, and RemovedInstances those that
	// are no longer configured. Both are only for status output. They are empty for a node with one
	// instance.
	UnhealthyInstances, RemovedInstances InstanceBits
	// HasServices means that the node has a list of configured services. Services are those of them that
	// it runs, ascending by ID. Otherwise the node runs DefaultService with all its instances. Both are
	// empty before ServicesFormatVersion is in force.
	HasServices bool
	Services    []ServiceReport

	// Results of hook calls.

	// UnreleasedMoves is the number of shards that moved within the last agent.UnreleasedMoveWindow
	// although the app had not released them.
	UnreleasedMoves uint32
	// WaitingShards is the number of shards of the node whose requests wait because the app failed
	// to acquire them, or has not responded for a long time.
	WaitingShards uint32
	// UnacquiredShards are up to MaxUnacquired shards, ascending, that the app failed to acquire.
	// They should move to another node, or have moved and must not return yet.
	UnacquiredShards []shardmap.Shard
	// AcquiresNone is set if the app fails to acquire any shard.
	AcquiresNone bool
	// KeptShards are up to MaxUnacquired shards, ascending, that remain at the node under a safe
	// drain because its app has not released them.
	KeptShards []shardmap.Shard
	// KeepsAllShards is set if more than MaxUnacquired shards remain, so all remain.
	KeepsAllShards bool

	// Connections to other nodes.

	// Unreachable are up to MaxUnreachable nodes, ascending, to which the sender cannot connect now.
	// It is empty before PeerReportsFormatVersion is in force.
	Unreachable []shardmap.NodeID
}

// The limits of the roles of a node.
const (
	MaxRoles = 16
	MaxRole  = 32 // bytes of one role
)

// InstanceBits is a set of app instances of one node, with one bit per instance. Unlike
// shardmap.InstanceSet, it may be empty.
type InstanceBits uint32

// Has reports whether the instance is in the set.
func (b InstanceBits) Has(instance shardmap.Instance) bool { return b>>instance&1 == 1 }

// With returns the set with one more instance. It must be less than shardmap.MaxInstances.
func (b InstanceBits) With(instance shardmap.Instance) InstanceBits { return b | 1<<instance }

// Refusal is the reason why a heartbeat did not count.
type Refusal uint8

// The refusals.
const (
	// RefusedBoot means that a higher boot of this node is known on another disk, or another
	// process has the same one. The node must raise its boot.
	RefusedBoot Refusal = iota + 1
	// RefusedDuplicate means that another process with this node id is connected.
	RefusedDuplicate
	// RefusedRollback means that a higher boot of this disk is known, or another process has
	// the same one. The disk is an older image of itself, or a copy. The node must stop,
	// because its promises since then are lost.
	RefusedRollback
)

// Answer is the response of the leader to one heartbeat.
type Answer struct {
	// FormatVersion is the format version of the heartbeat.
	FormatVersion FormatVersion
	// Term and Number identify the response.
	Term, Number uint64
	// Boot and HeartbeatNumber identify the heartbeat that it answers.
	Boot, HeartbeatNumber uint64

	// OK is true if the heartbeat acknowledged the last proposal.
	OK bool
	// Epoch is the epoch of the last proposal, even if OK is false (G5).
	Epoch shardmap.Epoch
	// ReleasesReceived confirms that the leader has the releases whose digest is in the heartbeat.
	ReleasesReceived bool
	// MapUnchanged is true if the node is leaving or drained and no other node can take its
	// shards.
	MapUnchanged bool
	// RestartIndex is the index of the last restart entry that the leader has applied. Zero
	// means none or unknown (a refusal, or an earlier program). A lease confirms which maps
	// the node has applied, but no entries after them.
	RestartIndex uint64

	// ServeFor is the lease: how long the node may admit requests. It counts from when the node
	// sent the heartbeat. Zero means no lease. The node uses this value and the next two instead of
	// a timing of its own.
	ServeFor time.Duration
	// AbortAfter is the time by which the node must have aborted its running requests if no other
	// lease follows. It counts from when the node sent the heartbeat.
	AbortAfter time.Duration
	// LeaseDuration is the full lease length, of which ServeFor is the rest. A pause of the process
	// for a quarter of LeaseDuration voids the lease.
	LeaseDuration time.Duration

	// Refusal is zero unless the heartbeat did not count.
	Refusal Refusal
	// KnownBoot is the boot above which the node must go or, for a rollback, the known boot of its
	// disk.
	KnownBoot uint64
	// DuplicateAddr is the address of the other process.
	DuplicateAddr string
}

// Bits of the flag byte in an encoded heartbeat, in the order in which Heartbeat.flagBits passes them.
const (
	flagUnhealthy = 1 << iota
	flagLeaving
	flagGoodbye
	flagGateway
	flagHasReleases
	flagAcquiresNone
	flagKeepsAllShards
	flagReturnsNeedRestart
)

// Bits of the flag byte of AppHealth in an encoded heartbeat, in the order in which MarshalBinary
// passes them.
const (
	flagAppFailing = 1 << iota
	flagAppRefused
	flagAppStarting
	flagHasRoles // the roles of the node follow; since RolesFormatVersion
	allAppFlags  = flagAppFailing | flagAppRefused | flagAppStarting
)

// flags returns a byte in which bit i is set if the i-th value is true.
func flags(values ...bool) byte {
	var bits byte
	for i, on := range values {
		if on {
			bits |= 1 << i
		}
	}
	return bits
}

// hasReleases reports whether releases belong to the acknowledgement.
func (h *Heartbeat) hasReleases() bool { return h.ReleasesDigest != [32]byte{} }

// flagBits returns the flag byte of the heartbeat.
func (h *Heartbeat) flagBits() byte {
	return flags(h.Unhealthy, h.Leaving, h.Goodbye, h.Gateway, h.hasReleases(), h.AcquiresNone, h.KeepsAllShards, h.ReturnsNeedRestart)
}

// setFlags sets the fields that the flag byte contains. flagHasReleases is not a field.
func (h *Heartbeat) setFlags(bits byte) {
	h.Unhealthy = bits&flagUnhealthy != 0
	h.Leaving = bits&flagLeaving != 0
	h.Goodbye = bits&flagGoodbye != 0
	h.Gateway = bits&flagGateway != 0
	h.AcquiresNone = bits&flagAcquiresNone != 0
	h.KeepsAllShards = bits&flagKeepsAllShards != 0
	h.ReturnsNeedRestart = bits&flagReturnsNeedRestart != 0
}

// MarshalBinary encodes the heartbeat. The error is always nil.
func (h Heartbeat) MarshalBinary() ([]byte, error) {
	w := newWriter(h.FormatVersion)
	w.text(string(h.Node))
	w.text(h.Server)
	for _, v := range []uint64{
		h.Boot, h.Nonce, h.Number, h.Echo.Term, h.Echo.Number, h.Term, uint64(h.Applied), uint64(h.Acked),
		uint64(h.Interval.Milliseconds()), uint64(h.Weight), uint64(h.ReleaseTime.Milliseconds()), uint64(h.RestartWithin.Milliseconds()),
		uint64(h.UnreleasedMoves), uint64(h.AppStartedAfter), h.KeyConfigDigest,
	} {
		w.uint(v)
	}
	w.text(h.Zone)
	w.byte(h.flagBits())
	if h.hasReleases() {
		w.buf = append(w.buf, h.ReleasesDigest[:]...)
	}
	w.uint(uint64(h.WaitingShards))
	w.writeShardList(h.UnacquiredShards)
	w.writeShardList(h.KeptShards)
	w.byte(flags(h.App.Failing, h.App.Refused, h.App.Starting, h.hasRoles()))
	w.uint(uint64(min(h.App.FlapCount, maxFlaps)))
	if h.hasRoles() {
		w.uint(uint64(len(h.Roles)))
		for _, role := range h.Roles {
			w.text(role)
		}
	}
	if h.hasInstances() || h.hasPeerReport() || h.hasServices() {
		w.uint(uint64(h.Instances))
		w.uint(uint64(len(h.InstancesStartedAfter)))
		for _, epoch := range h.InstancesStartedAfter {
			w.uint(uint64(epoch))
		}
		w.uint(uint64(h.UnhealthyInstances))
		w.uint(uint64(h.RemovedInstances))
	}
	if h.hasPeerReport() || h.hasServices() {
		w.uint(uint64(len(h.Unreachable)))
		for _, node := range h.Unreachable {
			w.text(string(node))
		}
	}
	if h.hasServices() {
		w.writeServiceReports(h.Services)
	}
	return w.buf, nil
}

// hasRoles reports whether the encoded heartbeat contains roles.
func (h *Heartbeat) hasRoles() bool { return len(h.Roles) > 0 && h.FormatVersion.HasRoles() }

// readRoles reads the roles of a node.
func (r *reader) readRoles() (roles []string) {
	for range r.uint(1, MaxRoles) {
		role := r.text(1, MaxRole)
		if r.err == nil && len(roles) > 0 && role <= roles[len(roles)-1] {
			r.fail("roles out of order")
		}
		roles = append(roles, role)
	}
	return roles
}

// hasInstances reports whether the heartbeat contains the section about instances. A node with one
// instance omits it, and so does a heartbeat of a format version without instances.
func (h *Heartbeat) hasInstances() bool {
	return (h.Instances != 0 || len(h.InstancesStartedAfter) > 0) && h.FormatVersion.HasInstances()
}

// OmitInstances removes the app instances from the heartbeat, as if the node had only the first one.
func (h *Heartbeat) OmitInstances() {
	h.Instances, h.InstancesStartedAfter = 0, nil
	h.UnhealthyInstances, h.RemovedInstances = 0, 0
}

// hasPeerReport reports whether the heartbeat contains the section about unreachable nodes. It follows the
// section about instances.
func (h *Heartbeat) hasPeerReport() bool {
	return len(h.Unreachable) > 0 && h.FormatVersion.HasPeerReports()
}

// readInstances reads the section about instances, if there is one.
func (r *reader) readInstances(h *Heartbeat) {
	if r.err != nil || len(r.buf) == 0 || !r.version.HasInstances() {
		return
	}
	h.Instances = shardmap.InstanceSet(r.uint(0, maxUint32))
	for range r.uint(0, shardmap.MaxInstances-1) {
		h.InstancesStartedAfter = append(h.InstancesStartedAfter, r.readEpoch())
	}
	h.UnhealthyInstances, h.RemovedInstances = InstanceBits(r.uint(0, maxUint32)), InstanceBits(r.uint(0, maxUint32))
	isPeerReportNext := len(r.buf) > 0 // it requires this section, and so do services
	if !h.hasInstances() && !isPeerReportNext || h.Instances != h.Instances.Normalized() {
		r.fail("set of instances")
	}
}

// readPeerReport reads the section about unreachable nodes, if there is one.
func (r *reader) readPeerReport(h *Heartbeat) {
	if r.err != nil || len(r.buf) == 0 || !r.version.HasPeerReports() {
		return
	}
	last := shardmap.NodeID("")
	for range r.uint(0, MaxUnreachable) {
		node := shardmap.NodeID(r.text(1, maxText))
		if r.err == nil && node <= last {
			r.fail("order of unreachable nodes")
		}
		h.Unreachable, last = append(h.Unreachable, node), node
	}
	areServicesNext := len(r.buf) > 0 // they require this section
	if r.err == nil && len(h.Unreachable) == 0 && !areServicesNext {
		r.fail("empty list of unreachable nodes")
	}
}

// UnmarshalBinary decodes the output of MarshalBinary. It returns
// ErrCorrupt for any other input.
func (h *Heartbeat) UnmarshalBinary(data []byte) error {
	r := reader{buf: data}
	*h = Heartbeat{
		FormatVersion: r.readFormatVersion(), Node: shardmap.NodeID(r.text(1, maxText)), Server: r.text(0, 2*maxText),
		Boot: r.uint(1, maxUint), Nonce: r.uint(0, maxUint), Number: r.uint(1, maxUint),
		Echo: Echo{Term: r.uint(0, maxUint), Number: r.uint(0, maxUint)}, Term: r.uint(0, maxUint),
		Applied: r.readEpoch(), Acked: r.readEpoch(),
		Interval: r.readMilliseconds(maxUint32), Weight: uint32(r.uint(1, maxWeight)),
		ReleaseTime: r.readMilliseconds(uint64(MaxReleaseTimeout.Milliseconds())), RestartWithin: r.readMilliseconds(uint64(MaxGrace.Milliseconds())),
		UnreleasedMoves: uint32(r.uint(0, MaxShards)), AppStartedAfter: r.readEpoch(), KeyConfigDigest: r.uint(0, maxUint), Zone: r.text(0, maxText),
	}
	bits := r.byte()
	h.setFlags(bits)
	if bits&flagHasReleases != 0 {
		copy(h.ReleasesDigest[:], r.read(len(h.ReleasesDigest)))
	}
	h.WaitingShards = uint32(r.uint(0, MaxShards))
	h.UnacquiredShards, h.KeptShards = r.readShardList(), r.readShardList()
	h.App, h.Roles = r.readAppHealthAndRoles()
	r.readInstances(h)
	r.readPeerReport(h)
	r.readServiceReports(h)
	if bits&flagHasReleases != 0 && !h.hasReleases() {
		r.fail("empty release digest")
	}
	if !strings.HasPrefix(h.Server, string(h.Node)+"/") {
		r.fail("server of another node")
	}
	if h.RestartWithin > 0 && !h.Goodbye {
		r.fail("announced return without a goodbye")
	}
	return r.finish()
}

// readAppHealthAndRoles reads the health of an app and the roles of its node.
func (r *reader) readAppHealthAndRoles() (health AppHealth, roles []string) {
	bits, hasRoles := r.byte(), false
	if r.version.HasRoles() {
		bits, hasRoles = bits&^flagHasRoles, bits&flagHasRoles != 0
	}
	health = r.readAppHealthOf(bits)
	if hasRoles {
		roles = r.readRoles()
	}
	return health, roles
}

// readAppHealthOf reads the health of an app after its flag byte.
func (r *reader) readAppHealthOf(bits byte) AppHealth {
	if bits > allAppFlags {
		r.fail("unknown flag of an app")
	}
	return AppHealth{
		Failing: bits&flagAppFailing != 0, Refused: bits&flagAppRefused != 0, Starting: bits&flagAppStarting != 0,
		FlapCount: uint32(r.uint(0, maxFlaps)),
	}
}

// Bits of the flag byte in an encoded answer, in the order in which MarshalBinary passes them.
const (
	flagOK = 1 << iota
	flagMapUnchanged
	flagReleasesReceived
	allAnswerFlags = flagOK | flagMapUnchanged | flagReleasesReceived
)

// MarshalBinary encodes the response. The error is always nil.
func (a Answer) MarshalBinary() ([]byte, error) {
	w := newWriter(a.FormatVersion)
	for _, v := range []uint64{a.Term, a.Number, a.Boot, a.HeartbeatNumber, uint64(a.Epoch)} {
		w.uint(v)
	}
	w.uint(uint64(max(a.ServeFor, 0)))
	if a.ServeFor > 0 {
		w.uint(uint64(a.AbortAfter))
		w.uint(uint64(a.LeaseDuration))
	}
	w.byte(flags(a.OK, a.MapUnchanged, a.ReleasesReceived))
	w.byte(byte(a.Refusal))
	// RestartIndex and KnownBoot share one number: programs before RestartIndex ignored the
	// number without a refusal.
	indexOrBoot := a.RestartIndex
	if a.Refusal != 0 {
		indexOrBoot = a.KnownBoot
	}
	w.uint(indexOrBoot)
	w.text(a.DuplicateAddr[:min(len(a.DuplicateAddr), 2*maxText)])
	return w.buf, nil
}

// UnmarshalBinary decodes the output of MarshalBinary. It returns
// ErrCorrupt for any other input.
func (a *Answer) UnmarshalBinary(data []byte) error {
	r := reader{buf: data}
	*a = Answer{
		FormatVersion: r.readFormatVersion(), Term: r.uint(1, maxUint), Number: r.uint(0, maxUint),
		Boot: r.uint(1, maxUint), HeartbeatNumber: r.uint(1, maxUint),
		Epoch: r.readEpoch(), ServeFor: time.Duration(r.uint(0, uint64(MaxLease))),
	}
	if a.ServeFor > 0 {
		a.AbortAfter, a.LeaseDuration = r.readDuration(MaxDeadAfter), r.readDuration(MaxLease)
		if a.AbortAfter < a.ServeFor || a.LeaseDuration < a.ServeFor {
			r.fail("a lease longer than it may be")
		}
	}
	bits := r.byte()
	if bits > allAnswerFlags {
		r.fail("unknown flag")
	}
	a.OK, a.MapUnchanged, a.ReleasesReceived = bits&flagOK != 0, bits&flagMapUnchanged != 0, bits&flagReleasesReceived != 0
	if a.Refusal = Refusal(r.byte()); a.Refusal > RefusedRollback {
		r.fail("unknown refusal")
	}
	indexOrBoot := r.uint(0, maxUint)
	if a.Refusal == 0 {
		a.RestartIndex = indexOrBoot
	} else {
		a.KnownBoot = indexOrBoot
	}
	a.DuplicateAddr = r.text(0, 2*maxText)
	return r.finish()
}

// writeShardList writes a sorted list of shards. Each shard is encoded as the gap to its predecessor.
func (w *writer) writeShardList(list []shardmap.Shard) {
	w.uint(uint64(len(list)))
	next := shardmap.Shard(0)
	for _, shard := range list {
		w.uint(uint64(shard - next))
		next = shard + 1
	}
}

// readShardList decodes the output of writer.writeShardList, up to MaxUnacquired shards.
func (r *reader) readShardList() (list []shardmap.Shard) {
	next := uint64(0) // the lowest shard that may follow
	for range r.uint(0, MaxUnacquired) {
		shard := next + r.uint(0, MaxShards)
		if shard >= MaxShards {
			r.fail("no such shard")
		}
		if r.err != nil {
			return nil
		}
		list = append(list, shardmap.Shard(shard))
		next = shard + 1
	}
	return list
}
