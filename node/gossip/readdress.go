package gossip

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// A node that was killed and restarts at another address announces this address. memberlist
// (v0.6.0) ignores the announcement while it considers the node alive at the previous address, and
// for DeadNodeReclaimTime after that: 8 to 11 s in total. As a result, this package reports each
// announcement of another address. A caller that can verify that it is the same node calls
// ChangeAddress.

// AddressClaim is an announcement of a known member at another address.
type AddressClaim struct {
	// Member is the content of the announcement. It is not verified.
	Member Member
	// PreviousAddr is the previous gossip address.
	PreviousAddr netip.AddrPort
}

// claimTracker records the addresses of members, and reports announcements of other addresses.
type claimTracker struct {
	self   string
	claims chan AddressClaim // if it is full, a claim is dropped: the member announces it again

	mu    sync.Mutex // protects addrs
	addrs map[string]netip.AddrPort

	holder atomic.Pointer[nameHolder] // last announcement of the name self; nil means none
}

// newClaimTracker returns a claimTracker for the member self, whose own announcements are no claims.
func newClaimTracker(self string) *claimTracker {
	return &claimTracker{self: self, claims: make(chan AddressClaim, 64), addrs: map[string]netip.AddrPort{}}
}

// onEvent records the addresses of members from an event of Serf.
func (t *claimTracker) onEvent(event serf.Event) {
	memberEvent, ok := event.(serf.MemberEvent)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range memberEvent.Members {
		member := &memberEvent.Members[i]
		switch memberEvent.Type {
		case serf.EventMemberJoin, serf.EventMemberUpdate:
			t.addrs[member.Name] = addrOf(*member)
		case serf.EventMemberReap:
			delete(t.addrs, member.Name)
		case serf.EventMemberLeave, serf.EventMemberFailed, serf.EventUser, serf.EventQuery:
		}
	}
}

// onAnnouncement handles an announcement. The lock of memberlist is held, so it must not block.
func (t *claimTracker) onAnnouncement(announced *serf.Member) {
	addr := addrOf(*announced)
	if announced.Name == t.self {
		t.holder.Store(&nameHolder{addr: addr, seenAt: time.Now()})
		return
	}
	t.mu.Lock()
	known, ok := t.addrs[announced.Name]
	t.mu.Unlock()
	if !ok || known == addr {
		return
	}
	select {
	case t.claims <- AddressClaim{Member: newMember(*announced), PreviousAddr: known}:
	default:
	}
}

// AddressClaims returns the channel of announcements of known members at other addresses.
func (g *Gossip) AddressClaims() <-chan AddressClaim { return g.addressClaims.claims }

// errAddressHeld means that gossip does not accept the new address yet.
var errAddressHeld = errors.New("gossip: the node counts as failed, and keeps its previous address until 5 s after that")

// ChangeAddress makes gossip use another address for a known member. The caller must be certain that
// it is the same node and that its previous process has ended. ChangeAddress exchanges the state with
// the member at the new address. If it returns an error, gossip still has the previous address,
// and the caller must not retry immediately.
func (g *Gossip) ChangeAddress(id string, addr netip.AddrPort) error {
	if err := markLeft(g.serf.Memberlist(), id); err != nil {
		return err
	}
	if _, err := g.serf.Memberlist().Join([]string{id + "/" + addr.String()}); err != nil {
		return fmt.Errorf("gossip: exchange state with %s at %s: %w", id, addr, err)
	}
	for _, member := range g.serf.Members() {
		if member.Name == id && addrOf(member) != addr {
			return errAddressHeld
		}
	}
	return nil
}

// deadMessage is the dead message of memberlist. From is the member that sends it. A member that
// sends it about itself has left.
type deadMessage struct {
	Incarnation uint32
	Node        string
	From        string
}

// deadNode makes memberlist handle a deadMessage.
//
//go:linkname deadNode github.com/hashicorp/memberlist.(*Memberlist).deadNode
func deadNode(m *memberlist.Memberlist, d *deadMessage)

// markLeft makes memberlist treat a member as left, so that its address can change immediately.
func markLeft(list *memberlist.Memberlist, id string) error {
	number, known, err := incarnationOf(list, id)
	if err != nil || !known {
		return err
	}
	deadNode(list, &deadMessage{Incarnation: number, Node: id, From: id})
	return nil
}

// incarnationOf returns the incarnation number of the last announcement of a member. known is false
// if the member is unknown.
func incarnationOf(list *memberlist.Memberlist, id string) (number uint32, known bool, err error) {
	value := reflect.ValueOf(list).Elem()
	lock, nodes := value.FieldByName("nodeLock"), value.FieldByName("nodeMap")
	if !lock.IsValid() || lock.Type() != reflect.TypeFor[sync.RWMutex]() || nodes.Kind() != reflect.Map {
		return 0, false, errors.New("gossip: this version of memberlist keeps its members otherwise, so no member can be given another address")
	}
	mu := (*sync.RWMutex)(unsafe.Pointer(lock.UnsafeAddr())) //nolint:gosec // the field is unexported
	mu.RLock()
	defer mu.RUnlock()
	state := nodes.MapIndex(reflect.ValueOf(id))
	if !state.IsValid() {
		return 0, false, nil
	}
	field := state.Elem().FieldByName("Incarnation")
	if !field.IsValid() || field.Kind() != reflect.Uint32 {
		return 0, false, errors.New("gossip: this version of memberlist numbers its members otherwise, so no member can be given another address")
	}
	return uint32(field.Uint()), true, nil
}
