package ack

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"shardway/shardmap"
)

// MaxReason is the maximum length, in bytes, of a reason given by an operator.
const MaxReason = 200

// ValidReason reports whether reason is valid UTF-8 without control characters, and not longer than
// MaxReason. An empty reason is valid.
func ValidReason(reason string) bool {
	isControl := func(char rune) bool { return char < ' ' || char >= 0x7f && char < 0xa0 }
	isUTF8 := strings.ToValidUTF8(reason, "") == reason // the core packages must not import unicode/utf8
	return len(reason) <= MaxReason && isUTF8 && !strings.ContainsFunc(reason, isControl)
}

// PolicyItem identifies one item of a Policy, such as the drain of a node. Kind is the kind of the change
// that adds the item, except that a gradual drain has the kind ChangeDrain. The other fields are those of
// the Change.
type PolicyItem struct {
	Kind           ChangeKind
	Node           shardmap.NodeID
	Shard          shardmap.Shard
	KeyFingerprint KeyFingerprint
}

// Compare orders items by kind, then by the other fields.
func (item PolicyItem) Compare(other PolicyItem) int {
	return cmp.Or(cmp.Compare(item.Kind, other.Kind), cmp.Compare(item.Node, other.Node), cmp.Compare(item.Shard, other.Shard), item.KeyFingerprint.Compare(other.KeyFingerprint))
}

// item returns the item that the change adds. ok is false if the change adds none.
func (c Change) item() (item PolicyItem, ok bool) {
	switch c.Kind { //nolint:exhaustive // the other kinds remove items, or add none
	case ChangeCordon, ChangeDrain, ChangeWeight, ChangeMarkFailed:
		return PolicyItem{Kind: c.Kind, Node: c.Node}, true
	case ChangeDrainGradually:
		return PolicyItem{Kind: ChangeDrain, Node: c.Node}, true
	case ChangePin:
		return PolicyItem{Kind: c.Kind, Shard: c.Shard}, true
	case ChangePause, ChangeRole:
		return PolicyItem{Kind: c.Kind}, true
	case ChangeQuarantine:
		return PolicyItem{Kind: c.Kind, KeyFingerprint: c.KeyFingerprint}, true
	}
	return PolicyItem{}, false
}

// contains reports whether the item is in force. It returns false for an item with fields that its kind
// does not use.
func (p *Policy) contains(item PolicyItem) bool {
	change := Change{Kind: item.Kind, Node: item.Node, Shard: item.Shard, KeyFingerprint: item.KeyFingerprint}
	if canonical, ok := change.item(); !ok || canonical != item {
		return false
	}
	switch item.Kind { //nolint:exhaustive // the other kinds add no item
	case ChangeCordon:
		return p.Cordoned[item.Node]
	case ChangeMarkFailed:
		return p.MarkedFailed[item.Node]
	case ChangeDrain:
		return p.IsDraining(item.Node)
	case ChangeWeight:
		return p.Weights[item.Node] > 0
	case ChangePin:
		_, isPinned := p.Pins[item.Shard]
		return isPinned
	case ChangePause:
		return p.Pause > 0
	case ChangeRole:
		return p.Role != ""
	case ChangeQuarantine:
		_, isQuarantined := p.Quarantined[item.KeyFingerprint]
		return isQuarantined
	}
	return false
}

// setReason records the reason of a change. A repeated change without a reason deletes the earlier
// one, which may no longer be true. The maps of p must not be shared.
func (p *Policy) setReason(change Change) {
	item, addsItem := change.item()
	switch {
	case !addsItem:
	case change.Reason == "":
		delete(p.Reasons, item)
	default:
		setKey(&p.Reasons, item, change.Reason)
	}
}

// deleteObsoleteReasons deletes the reasons of items that are no longer in force.
func (p *Policy) deleteObsoleteReasons() {
	maps.DeleteFunc(p.Reasons, func(item PolicyItem, _ string) bool { return !p.contains(item) })
}

// writeReasons writes the reasons in the order of their items.
func (w *writer) writeReasons(reasons map[PolicyItem]string) {
	w.uint(uint64(len(reasons)))
	for _, item := range slices.SortedFunc(maps.Keys(reasons), PolicyItem.Compare) {
		w.byte(byte(item.Kind))
		w.text(string(item.Node))
		w.uint(uint64(item.Shard))
		w.writeKeyFingerprint(item.KeyFingerprint)
		w.text(reasons[item])
	}
}

// readReasons decodes the output of writer.writeReasons.
func (r *reader) readReasons() map[PolicyItem]string {
	readItem := func() PolicyItem {
		return PolicyItem{Kind: ChangeKind(r.byte()), Node: shardmap.NodeID(r.text(0, maxInstanceID)), Shard: r.readShard(), KeyFingerprint: r.readKeyFingerprint()}
	}
	return readSortedFunc(r, PolicyItem.Compare, readItem, func() string { return r.readReason(1) })
}

// readReason reads the reason of an operator, which has at least minLength bytes.
func (r *reader) readReason(minLength int) string {
	reason := r.text(minLength, MaxReason)
	if !ValidReason(reason) {
		r.fail("a reason with control characters, or that is not valid UTF-8")
		return ""
	}
	return reason
}
