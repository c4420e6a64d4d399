package ack

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// The bounds of a Policy.
const (
	// MaxPolicy is the largest encoded Policy, in bytes.
	MaxPolicy = 64 << 10
	// MaxPause is the longest pause of planned moves.
	MaxPause = 7 * 24 * time.Hour
	// MaxChanges is the maximum number of changes in one entry.
	MaxChanges = 1024
)

// ErrChange reports an invalid change of the policy. Its entry would stop every node that
// applies it.
var ErrChange = errors.New("ack: no change of the policy")

// ErrPolicyFull reports that a policy would be larger than MaxPolicy.
var ErrPolicyFull = errors.New("ack: the policy would take more than 64 KiB")

// Policy contains the requests of operators about the maps of the cluster. It is part of the
// replicated state. It decides which nodes may be in the next map and how shards are placed,
// but never which node may serve. It is immutable: With makes a new one. Its maps are shared and
// must not be modified.
type Policy struct {
	// Cordoned, Drained, Weights and Pins are those of shardmap.Policy. Drained also contains the
	// names of drained app instances (shardmap.InstanceName).
	Cordoned, Drained map[shardmap.NodeID]bool
	Weights           map[shardmap.NodeID]uint32
	Pins              map[shardmap.Shard]shardmap.Pin
	// PinFallbacks is described at shardmap.Policy. It contains only shards that are pinned to a node.
	PinFallbacks map[shardmap.Shard][]shardmap.NodeID

	// Pause is how long planned moves wait; zero means no pause. Each leader measures it from
	// when it applied the entry PauseIndex, or from its election: there is no shared clock, and
	// no pause ends early.
	Pause      time.Duration
	PauseIndex uint64

	// GradualDrains are the nodes with a gradual drain: they lose their idle shards first, and the
	// other shards later. A node in Drained is not among them.
	GradualDrains map[shardmap.NodeID]GradualDrain
	// DrainOptions are the options of drains, by node, for nodes in Drained or GradualDrains.
	DrainOptions map[shardmap.NodeID]DrainOptions

	// MarkedFailed are the nodes that an operator has marked as failed: the next map excludes them until
	// an operator uncordons them. They remain members of the cluster.
	MarkedFailed map[shardmap.NodeID]bool

	// Quarantined are the keys whose requests are refused. Quarantines do not affect
	// placement, but need the same replication: all nodes agree on them, and they survive
	// restarts.
	Quarantined map[KeyFingerprint]Quarantine

	// Role restricts shards to nodes with this role, as long as such a node can own them; empty means no
	// restriction.
	Role string

	// Reasons are the reasons that operators gave for items of the policy that are in force.
	Reasons map[PolicyItem]string

	// ChangedIndex is the index of the last entry that changed the policy.
	ChangedIndex uint64
}

// ChangeKind is the kind of a Change.
type ChangeKind uint8

// The kinds, and the fields of Change that each uses.
const (
	ChangeCordon   ChangeKind = iota + 1 // Node
	ChangeDrain                          // Node, or the name of an app instance
	ChangeUncordon                       // Node: ends cordon, drain and mark as failed, or the drain of an app instance
	ChangeWeight                         // Node, Weight; zero means the weight that the node reports
	ChangePin                            // Shard, Node with Fallbacks, or Zone
	ChangeUnpin                          // Shard
	ChangePause                          // Duration; restarts a running pause
	ChangeResume
	ChangeForgetNode     // Node: removes all policy for the node, and its drop record
	ChangeQuarantine     // KeyFingerprint, Duration; restarts a running quarantine
	ChangeEndQuarantine  // KeyFingerprint: ends its quarantine
	ChangeDrainGradually // Node, Duration; restarts the time, no effect on a drained node
	// ChangeAppRestarted uses Node, or the name of an app instance: the app has restarted, so every
	// shard may return to it. It does not change the policy.
	ChangeAppRestarted
	ChangeMarkFailed // Node: excludes it from the map as if it had failed, until ChangeUncordon
	ChangeRole       // Role; an empty role ends the restriction
	// ChangeAddService uses Service and Shards, and ChangeRemoveService uses Service. They change the list
	// of services, and not the policy.
	ChangeAddService
	ChangeRemoveService
)

// Change is one change of a Policy. It is idempotent. The comments of the kinds name the fields that
// each kind uses.
type Change struct {
	Kind           ChangeKind
	Node           shardmap.NodeID
	Weight         uint32
	Shard          shardmap.Shard
	Zone           string
	Fallbacks      []shardmap.NodeID // must not be modified
	Role           string
	Duration       time.Duration
	KeyFingerprint KeyFingerprint
	// ReleaseTimeout and SafeDrain are the DrainOptions of ChangeDrain and ChangeDrainGradually.
	ReleaseTimeout time.Duration
	SafeDrain      bool
	// Service is the name of a service, and Shards the number of its shards.
	Service string
	Shards  int
	// Reason is why an operator requests the change; it may be empty. See ValidReason.
	Reason string
}

// With returns the policy after changes at the given index, or ErrPolicyFull if it would be
// too large.
func (p *Policy) With(index uint64, changes []Change) (*Policy, error) {
	next := *p
	next.Cordoned, next.Drained = maps.Clone(p.Cordoned), maps.Clone(p.Drained)
	next.Weights, next.Pins, next.PinFallbacks = maps.Clone(p.Weights), maps.Clone(p.Pins), maps.Clone(p.PinFallbacks)
	next.GradualDrains, next.DrainOptions = maps.Clone(p.GradualDrains), maps.Clone(p.DrainOptions)
	next.MarkedFailed = maps.Clone(p.MarkedFailed)
	next.Quarantined, next.Reasons = maps.Clone(p.Quarantined), maps.Clone(p.Reasons)
	for _, change := range changes {
		next.apply(index, change)
		next.setReason(change)
	}
	next.deleteObsoleteReasons()
	next.ChangedIndex = index
	w := newWriter(MaxFormatVersion)
	w.writePolicy(&next)
	if len(w.buf) > MaxPolicy {
		return p, ErrPolicyFull
	}
	return &next, nil
}

// apply applies one change to p, whose maps must not be shared.
func (p *Policy) apply(index uint64, change Change) {
	switch change.Kind {
	case ChangeCordon:
		setKey(&p.Cordoned, change.Node, true)
	case ChangeDrain:
		setKey(&p.Drained, change.Node, true)
		delete(p.GradualDrains, change.Node)
		p.setDrainOptions(index, change)
	case ChangeDrainGradually:
		p.setDrainOptions(index, change)
		if !p.Drained[change.Node] {
			setKey(&p.GradualDrains, change.Node, GradualDrain{Duration: change.Duration, Index: index})
		}
	case ChangeUncordon:
		p.uncordon(change.Node)
	case ChangeWeight:
		if change.Weight > 0 {
			setKey(&p.Weights, change.Node, change.Weight)
		} else {
			delete(p.Weights, change.Node)
		}
	case ChangePin:
		p.setPin(change.Shard, shardmap.Pin{Node: change.Node, Zone: change.Zone}, change.Fallbacks)
	case ChangeUnpin:
		delete(p.Pins, change.Shard)
		delete(p.PinFallbacks, change.Shard)
	case ChangePause:
		p.Pause, p.PauseIndex = change.Duration, index
	case ChangeResume:
		p.Pause, p.PauseIndex = 0, 0
	case ChangeQuarantine:
		p.endQuarantine(change.KeyFingerprint)
		setKey(&p.Quarantined, change.KeyFingerprint, Quarantine{Duration: change.Duration, Index: index})
	case ChangeEndQuarantine:
		p.endQuarantine(change.KeyFingerprint)
	case ChangeForgetNode:
		p.uncordon(change.Node)
		maps.DeleteFunc(p.Drained, func(id shardmap.NodeID, _ bool) bool {
			node, _, isNamed := shardmap.ParseInstance(id)
			return isNamed && node == change.Node
		})
		delete(p.Weights, change.Node)
		p.deleteFromPins(change.Node)
	case ChangeMarkFailed:
		setKey(&p.MarkedFailed, change.Node, true)
	case ChangeRole:
		p.Role = change.Role
	case ChangeAppRestarted, ChangeAddService, ChangeRemoveService: // see State.applyPolicy
	}
}

// uncordon ends the cordon of a node, its drains and its mark as failed.
func (p *Policy) uncordon(node shardmap.NodeID) {
	delete(p.Cordoned, node)
	delete(p.Drained, node)
	delete(p.GradualDrains, node)
	delete(p.DrainOptions, node)
	delete(p.MarkedFailed, node)
}

// setKey sets m[k] to v, and allocates the map if necessary.
func setKey[M ~map[K]V, K comparable, V any](m *M, k K, v V) {
	if *m == nil {
		*m = M{}
	}
	(*m)[k] = v
}

// ForRecoveredCluster returns the part of the policy that a recovered cluster keeps: weights, pins
// and quarantines (a quarantined key may have caused the failure). Drains and pauses concern nodes
// that may be gone. If the only survivor were drained, all shards would stay with dead nodes (rule
// 10).
func (p *Policy) ForRecoveredCluster() *Policy {
	kept := &Policy{Weights: p.Weights, Pins: p.Pins, Role: p.Role, PinFallbacks: p.PinFallbacks, Quarantined: p.Quarantined, Reasons: maps.Clone(p.Reasons)}
	kept.deleteObsoleteReasons()
	return kept
}

// Placement converts p to the policy of shardmap.Assign. zones contains the zone of each node.
func (p *Policy) Placement(zones map[shardmap.NodeID]string) shardmap.Policy {
	var graduallyDrained map[shardmap.NodeID]bool
	for id := range p.GradualDrains {
		setKey(&graduallyDrained, id, true)
	}
	return shardmap.Policy{
		Cordoned: p.Cordoned, Drained: p.Drained, GraduallyDrained: graduallyDrained,
		Weights: p.Weights, Pins: p.Pins, PinFallbacks: p.PinFallbacks, Paused: p.Pause > 0, Zones: zones,
	}
}

// Policy returns the policy, never nil.
func (s *State) Policy() *Policy { return s.policy }

// PolicyEntry is the log entry that changes the policy.
type PolicyEntry struct {
	// Term is the Raft term of the leader that queued it (see ProposalEntry): a request to an
	// earlier leader may have been reverted since.
	Term    uint64
	Changes []Change
}

// applyPolicy applies changes of the policy, if the leader of the current term has submitted
// them.
func (s *State) applyPolicy(term uint64, entry PolicyEntry) (*State, Outcome, error) {
	policy, err := s.policy.With(s.index, entry.Changes)
	if !s.Bootstrapped() || term != entry.Term || err != nil {
		return s.ignore()
	}
	s.policy = policy
	for _, change := range entry.Changes {
		switch change.Kind { //nolint:exhaustive // the other kinds change the policy only
		case ChangeAppRestarted:
			s.departures.forget(change.Node, s.index)
		case ChangeAddService, ChangeRemoveService:
			s.changeServices(change)
		case ChangeForgetNode:
			s.formerMembers = s.formerMembers.withRemoval(change.Node, s.committed)
			s.joins, _ = s.joins.WithoutNode(string(change.Node))
			ownsShards := s.committed.IsMember(change.Node) || s.proposed.IsMember(change.Node)
			if !ownsShards { // the drop record of an owner must remain, because it denies leases
				s.drops = s.drops.without(change.Node)
			}
		}
	}
	return s, OutcomePolicyChanged, nil
}

// namesInstance reports whether the change is about one app instance of a node.
func (c Change) namesInstance() bool {
	_, _, isInstance := shardmap.ParseInstance(c.Node)
	return isInstance
}

// hasInstanceOptions reports whether the change drains an app instance with options, which only the
// drain of a node has.
func (c Change) hasInstanceOptions() bool {
	return c.namesInstance() && c.Kind == ChangeDrain && (c.ReleaseTimeout > 0 || c.SafeDrain)
}

// DrainsInstance reports whether the app instance of the node is drained, but not the whole node.
func (p *Policy) DrainsInstance(node shardmap.NodeID, instance shardmap.Instance) bool {
	return p.Drained[shardmap.InstanceName(node, instance)]
}

// DrainsAll reports whether the node is drained, or each of the given instances.
func (p *Policy) DrainsAll(node shardmap.NodeID, instances shardmap.InstanceSet) bool {
	if p.Drained[node] || len(p.Drained) == 0 {
		return p.Drained[node]
	}
	_, isEmpty := instances.Without(func(instance shardmap.Instance) bool { return p.DrainsInstance(node, instance) })
	return isEmpty
}

// CheckChanges returns ErrChange if the entry of these changes could not be decoded, or would
// be decoded differently, or if a change of the services would have no effect. The changes may come
// from a node with another version, or with an error. More than MaxChanges are ErrPolicyFull.
func (s *State) CheckChanges(changes []Change) error {
	if len(changes) > MaxChanges {
		return ErrPolicyFull
	}
	if err := s.checkFormatVersion(changes); err != nil {
		return err
	}
	if _, _, err := decodeCommand(EncodePolicyChange(s.formatVersion, PolicyEntry{Changes: changes})); err != nil {
		return fmt.Errorf("%w: %w", ErrChange, err)
	}
	if slices.ContainsFunc(changes, func(change Change) bool { return change.Kind == ChangePin && change.Node != "" && change.Zone != "" }) {
		return fmt.Errorf("%w: a pin to a node and to a zone", ErrChange)
	}
	if slices.ContainsFunc(changes, Change.hasInstanceOptions) {
		return fmt.Errorf("%w: the drain of an app instance has no options", ErrChange)
	}
	return nil
}

// checkFormatVersion returns ErrChange, with the required format version, if a change needs a higher format version than
// the one in force. Otherwise its encoding would lose parts of the change, or nodes of an earlier version could not read it.
func (s *State) checkFormatVersion(changes []Change) error {
	if !s.formatVersion.HasPinFallbacks() && slices.ContainsFunc(changes, func(change Change) bool { return len(change.Fallbacks) > 0 }) {
		return fmt.Errorf("%w: a pin to several nodes needs format version %d: run `shardway upgrade status`", ErrChange, ReasonsFormatVersion)
	}
	marksNode := func(change Change) bool { return change.Kind == ChangeMarkFailed }
	if !s.formatVersion.HasFailedMarks() && slices.ContainsFunc(changes, marksNode) {
		return fmt.Errorf("%w: mark-failed needs format version %d: run `shardway upgrade status`", ErrChange, ReasonsFormatVersion)
	}
	restrictsToRole := func(change Change) bool { return change.Kind == ChangeRole }
	if !s.formatVersion.HasRoles() && slices.ContainsFunc(changes, restrictsToRole) {
		return fmt.Errorf("%w: a restriction to a role needs format version %d: run `shardway upgrade status`", ErrChange, RolesFormatVersion)
	}
	if !s.formatVersion.HasInstances() && slices.ContainsFunc(changes, Change.namesInstance) {
		return fmt.Errorf("%w: %w", ErrChange, errInstances)
	}
	for _, change := range changes {
		if err := s.checkServiceChange(change); err != nil {
			return err
		}
	}
	return nil
}

// EncodePolicyChange encodes the entry in the given format version.
func EncodePolicyChange(version FormatVersion, entry PolicyEntry) []byte {
	w := newWriter(version)
	w.byte(kindPolicy)
	w.uint(entry.Term)
	w.uint(uint64(len(entry.Changes)))
	for _, change := range entry.Changes {
		w.byte(byte(change.Kind))
		switch change.Kind {
		case ChangeCordon, ChangeUncordon, ChangeForgetNode, ChangeAppRestarted, ChangeMarkFailed:
			w.text(string(change.Node))
		case ChangeDrain:
			w.text(string(change.Node))
			w.uint(uint64(change.ReleaseTimeout))
			w.bool(change.SafeDrain)
		case ChangeWeight:
			w.text(string(change.Node))
			w.uint(uint64(change.Weight))
		case ChangePin:
			w.uint(uint64(change.Shard))
			w.writePin(shardmap.Pin{Node: change.Node, Zone: change.Zone})
			if w.version().HasPinFallbacks() {
				w.writeFallbacks(change.Fallbacks)
			}
		case ChangeUnpin:
			w.uint(uint64(change.Shard))
		case ChangePause:
			w.uint(uint64(change.Duration))
		case ChangeDrainGradually:
			w.text(string(change.Node))
			w.uint(uint64(change.Duration))
			w.uint(uint64(change.ReleaseTimeout))
			w.bool(change.SafeDrain)
		case ChangeQuarantine:
			w.writeKeyFingerprint(change.KeyFingerprint)
			w.uint(uint64(change.Duration))
		case ChangeEndQuarantine:
			w.writeKeyFingerprint(change.KeyFingerprint)
		case ChangeRole:
			w.text(change.Role)
		case ChangeAddService:
			w.text(change.Service)
			w.uint(uint64(change.Shards))
		case ChangeRemoveService:
			w.text(change.Service)
		case ChangeResume:
		}
		if w.version().HasReasons() {
			w.text(change.Reason)
		}
	}
	return w.buf
}

// readPolicyEntry decodes the output of EncodePolicyChange after its kind.
func (r *reader) readPolicyEntry() PolicyEntry {
	entry := PolicyEntry{Term: r.uint(0, maxUint)}
	for range r.uint(0, MaxChanges) {
		change := Change{Kind: ChangeKind(r.byte())}
		switch change.Kind {
		case ChangeUncordon, ChangeAppRestarted:
			change.Node = r.readInstanceID()
		case ChangeCordon, ChangeForgetNode, ChangeMarkFailed:
			change.Node = r.readNode()
			if change.Kind == ChangeMarkFailed && !r.version.HasFailedMarks() {
				r.fail("a mark as failed in a format version without marks")
			}
		case ChangeDrain:
			change.Node = r.readInstanceID()
			change.ReleaseTimeout, change.SafeDrain = r.readReleaseTimeout(), r.bool()
		case ChangeWeight:
			change.Node, change.Weight = r.readNode(), uint32(r.uint(0, shardmap.MaxWeight))
		case ChangeDrainGradually:
			change.Node, change.Duration = r.readNode(), r.readDuration(MaxGradualDrain)
			change.ReleaseTimeout, change.SafeDrain = r.readReleaseTimeout(), r.bool()
		case ChangePin:
			change.Shard = r.readShard()
			pin := r.readPin()
			change.Node, change.Zone = pin.Node, pin.Zone
			if r.version.HasPinFallbacks() {
				change.Fallbacks = r.readFallbacks(pin, 0)
			}
		case ChangeUnpin:
			change.Shard = r.readShard()
		case ChangePause:
			change.Duration = r.readDuration(MaxPause)
		case ChangeQuarantine:
			change.KeyFingerprint, change.Duration = r.readKeyFingerprint(), time.Duration(r.uint(0, uint64(MaxQuarantine)))
		case ChangeEndQuarantine:
			change.KeyFingerprint = r.readKeyFingerprint()
		case ChangeAddService:
			change.Service, change.Shards = r.readServiceName(), int(r.uint(1, MaxShards))
		case ChangeRemoveService:
			change.Service = r.readServiceName()
		case ChangeResume:
		case ChangeRole:
			change.Role = r.text(0, MaxRole)
			if !r.version.HasRoles() {
				r.fail("a role in a format version without roles")
			}
		default:
			r.fail(fmt.Sprintf("change %d", change.Kind))
		}
		if change.isOfServices() && !r.version.HasServices() {
			r.fail(ErrServicesFormat.Error())
		}
		if r.version.HasReasons() {
			change.Reason = r.readReason(0)
		}
		if r.err != nil {
			break
		}
		entry.Changes = append(entry.Changes, change)
	}
	return entry
}

// writePolicy writes a policy. Equal policies have equal bytes on every node.
func (w *writer) writePolicy(policy *Policy) {
	w.uint(policy.ChangedIndex)
	w.writeNodeSet(policy.Cordoned)
	w.writeNodeSet(policy.Drained)
	w.uint(uint64(len(policy.Weights)))
	for _, id := range slices.Sorted(maps.Keys(policy.Weights)) {
		w.text(string(id))
		w.uint(uint64(policy.Weights[id]))
	}
	w.uint(uint64(len(policy.Pins)))
	for _, shard := range slices.Sorted(maps.Keys(policy.Pins)) {
		w.uint(uint64(shard))
		w.writePin(policy.Pins[shard])
	}
	w.uint(uint64(policy.Pause))
	w.uint(policy.PauseIndex)
	w.writeQuarantines(policy.Quarantined)
	w.writeGradualDrains(policy.GradualDrains)
	w.writeDrainOptions(policy.DrainOptions)
	if w.version().HasRoles() {
		w.text(policy.Role)
	}
	if w.version().HasReasons() {
		w.writePinFallbacks(policy.PinFallbacks)
		w.writeNodeSet(policy.MarkedFailed)
		w.writeReasons(policy.Reasons)
	}
}

// writeNodeSet writes a set of nodes in order.
func (w *writer) writeNodeSet(set map[shardmap.NodeID]bool) {
	w.uint(uint64(len(set)))
	for _, id := range slices.Sorted(maps.Keys(set)) {
		w.text(string(id))
	}
}

// writePin writes whether the pin names a node, and then the node or the zone.
func (w *writer) writePin(pin shardmap.Pin) {
	w.bool(pin.Node != "")
	w.text(string(pin.Node) + pin.Zone)
}

// readPolicy decodes the output of writer.writePolicy.
func (r *reader) readPolicy() *Policy {
	policy := &Policy{ChangedIndex: r.uint(0, maxUint), Cordoned: r.readNodeSet(), Drained: r.readInstanceSet()}
	policy.Weights = readSorted(r, r.readNode, func() uint32 { return uint32(r.uint(1, shardmap.MaxWeight)) })
	policy.Pins = readSorted(r, r.readShard, r.readPin)
	policy.Pause, policy.PauseIndex = time.Duration(r.uint(0, uint64(MaxPause))), r.uint(0, maxUint)
	if (policy.Pause == 0) != (policy.PauseIndex == 0) {
		r.fail("pause without its index, or the reverse")
	}
	policy.Quarantined = r.readQuarantines()
	policy.GradualDrains = r.readGradualDrains()
	policy.DrainOptions = r.readDrainOptions()
	for id := range policy.GradualDrains {
		if r.err == nil && policy.Drained[id] {
			r.fail("both drained and gradually drained")
		}
	}
	for id := range policy.DrainOptions {
		if r.err == nil && !policy.IsDraining(id) {
			r.fail("drain options without a drain")
		}
	}
	if r.version.HasRoles() {
		policy.Role = r.text(0, MaxRole)
	}
	if r.version.HasReasons() {
		policy.PinFallbacks = r.readPinFallbacks(policy.Pins)
		policy.MarkedFailed = r.readNodeSet()
		policy.Reasons = r.readReasons()
	}
	for item := range policy.Reasons {
		if r.err == nil && !policy.contains(item) {
			r.fail("a reason without an item of the policy")
		}
	}
	return policy
}

// readNodeSet decodes the output of writer.writeNodeSet.
func (r *reader) readNodeSet() map[shardmap.NodeID]bool {
	return readSorted(r, r.readNode, func() bool { return true })
}

// readInstanceSet decodes the output of writer.writeNodeSet, with names of app instances.
func (r *reader) readInstanceSet() map[shardmap.NodeID]bool {
	return readSorted(r, r.readInstanceID, func() bool { return true })
}

// maxInstanceID is the maximum length of an id that shardmap.InstanceID returns.
const maxInstanceID = shardmap.MaxID + len("/32")

// readInstanceID reads the id of a node, or the id or name of an app instance.
func (r *reader) readInstanceID() shardmap.NodeID {
	id := shardmap.NodeID(r.text(1, maxInstanceID))
	if node, _, _ := shardmap.ParseInstance(id); len(node) > shardmap.MaxID {
		r.fail("node id too long")
	}
	return id
}

// readNode reads the id of a node.
func (r *reader) readNode() shardmap.NodeID { return shardmap.NodeID(r.text(1, shardmap.MaxID)) }

// readShard reads a shard number.
func (r *reader) readShard() shardmap.Shard { return shardmap.Shard(r.uint(0, MaxShards-1)) }

// readReleaseTimeout reads the release timeout of a drain; zero means not set.
func (r *reader) readReleaseTimeout() time.Duration {
	return time.Duration(r.uint(0, uint64(MaxReleaseTimeout)))
}

// readPin decodes the output of writer.writePin.
func (r *reader) readPin() shardmap.Pin {
	if r.bool() {
		return shardmap.Pin{Node: r.readNode()}
	}
	return shardmap.Pin{Zone: r.text(1, maxText)}
}

// readSorted reads a map that was written in the order of its keys; nil if it is empty. readKey and
// readValue read the parts of one entry.
func readSorted[K ~string | ~uint32, V any](r *reader, readKey func() K, readValue func() V) map[K]V {
	return readSortedFunc(r, cmp.Compare[K], readKey, readValue)
}

// readSortedFunc is like readSorted, for keys that compare orders.
func readSortedFunc[K comparable, V any](r *reader, compare func(a, b K) int, readKey func() K, readValue func() V) map[K]V {
	var m map[K]V
	var last K
	for i := range r.uint(0, MaxPolicy) {
		k := readKey()
		if r.err == nil && i > 0 && compare(k, last) <= 0 {
			r.fail("policy out of order")
		}
		v := readValue()
		if r.err != nil {
			return nil
		}
		setKey(&m, k, v)
		last = k
	}
	return m
}
