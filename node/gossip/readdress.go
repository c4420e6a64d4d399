package gossip

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"sync"
	"unsafe"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// A node that was killed and restarts at another address announces this address. memberlist (v0.6.0)
// ignores the announcement while it considers the node alive at the previous address, and for
// DeadNodeReclaimTime after that: 8 to 11 s in total. So this package reports each announcement of
// another address. A caller that can verify that it is the same node calls Readdress.

// Claim is an announcement of a known member at another address.
type Claim struct {
	// Member is the content of the announcement. It is not verified.
	Member Member
	// Known is the previous gossip address.
	Known netip.AddrPort
}

// claims has the addresses of members, and reports announcements of other addresses.
type claims struct {
	self string
	ch   chan Claim // if it is full, a claim is dropped: the member announces it again

	mu    sync.Mutex // protects addrs
	addrs map[string]netip.AddrPort
}

// newClaims returns a claims for the member self, whose own announcements it ignores.
func newClaims(self string) *claims {
	return &claims{self: self, ch: make(chan Claim, 64), addrs: map[string]netip.AddrPort{}}
}

// onEvent records the addresses of members from an event of Serf.
func (c *claims) onEvent(e serf.Event) {
	m, ok := e.(serf.MemberEvent)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range m.Members {
		member := &m.Members[i]
		switch m.Type {
		case serf.EventMemberJoin, serf.EventMemberUpdate:
			c.addrs[member.Name] = addrOf(*member)
		case serf.EventMemberReap:
			delete(c.addrs, member.Name)
		case serf.EventMemberLeave, serf.EventMemberFailed, serf.EventUser, serf.EventQuery:
		}
	}
}

// onAnnouncement handles an announcement. The lock of memberlist is held, so it must not block.
func (c *claims) onAnnouncement(m *serf.Member) {
	if m.Name == c.self {
		return
	}
	at := addrOf(*m)
	c.mu.Lock()
	known, ok := c.addrs[m.Name]
	c.mu.Unlock()
	if !ok || known == at {
		return
	}
	select {
	case c.ch <- Claim{Member: newMember(*m), Known: known}:
	default:
	}
}

// Claims returns the channel of announcements of known members at other addresses.
func (g *Gossip) Claims() <-chan Claim { return g.claims.ch }

// errHeldDead is why gossip does not accept the address yet.
var errHeldDead = errors.New("gossip: the node counts as failed, and keeps its previous address until 5 s after that")

// Readdress makes gossip use another address for a known member. The caller must be certain that
// it is the same node and that its previous process has ended. Readdress exchanges the state with
// the member at the new address. If it returns an error, gossip still has the previous address,
// and the caller must not retry immediately.
func (g *Gossip) Readdress(id string, to netip.AddrPort) error {
	if err := markLeft(g.serf.Memberlist(), id); err != nil {
		return err
	}
	if _, err := g.serf.Memberlist().Join([]string{id + "/" + to.String()}); err != nil {
		return fmt.Errorf("gossip: exchange state with %s at %s: %w", id, to, err)
	}
	for _, m := range g.serf.Members() {
		if m.Name == id && addrOf(m) != to {
			return errHeldDead
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

// deadNode makes memberlist handle such a message.
//
//go:linkname deadNode github.com/hashicorp/memberlist.(*Memberlist).deadNode
func deadNode(m *memberlist.Memberlist, d *deadMessage)

// markLeft makes memberlist treat a member as left, so that its address can change immediately.
func markLeft(m *memberlist.Memberlist, id string) error {
	n, ok, err := incarnation(m, id)
	if err != nil || !ok {
		return err
	}
	deadNode(m, &deadMessage{Incarnation: n, Node: id, From: id})
	return nil
}

// incarnation returns the incarnation number of the last announcement of a member. known is false
// if the member is unknown.
func incarnation(m *memberlist.Memberlist, id string) (n uint32, known bool, err error) {
	v := reflect.ValueOf(m).Elem()
	lock, nodes := v.FieldByName("nodeLock"), v.FieldByName("nodeMap")
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
	f := state.Elem().FieldByName("Incarnation")
	if !f.IsValid() || f.Kind() != reflect.Uint32 {
		return 0, false, errors.New("gossip: this version of memberlist numbers its members otherwise, so no member can be given another address")
	}
	return uint32(f.Uint()), true, nil
}
