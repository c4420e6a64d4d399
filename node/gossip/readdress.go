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

// A node that was killed and starts again at another address announces that address. memberlist
// (v0.6.0) ignores the announcement for as long as it takes the node to be alive at the previous
// address, and for DeadNodeReclaimTime after that: 8 to 11 s in all. So each announcement of
// another address is reported, and whoever can tell that it is the same node calls Readdress.

// Claim is an announcement of a member at another address than the known one.
type Claim struct {
	// Member is what the announcement contains. Nobody has checked it.
	Member Member
	// Known is the gossip address that is known so far.
	Known netip.AddrPort
}

// claims are the addresses of members, and the announcements that differ from them.
type claims struct {
	self string
	ch   chan Claim // one is dropped while many wait: it comes again

	mu    sync.Mutex
	addrs map[string]netip.AddrPort
}

func newClaims(self string) *claims {
	return &claims{self: self, ch: make(chan Claim, 64), addrs: map[string]netip.AddrPort{}}
}

// learn notes where members are, from an event of Serf.
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

// hear takes an announcement. memberlist's lock is held, so hear does not block.
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

// Claims returns where announcements of known members at other addresses arrive.
func (g *Gossip) Claims() <-chan Claim { return g.claims.ch }

// errHeldDead says why gossip does not take the address yet.
var errHeldDead = errors.New("gossip: the node counts as failed, and keeps its previous address until 5 s after that")

// Readdress takes a member that gossip knows elsewhere to be at another address from now on. The
// caller must be certain that it is the same node: its former process has ended. Readdress
// exchanges the states with the member at that address. It returns an error if gossip has the
// previous address after that: the caller must not try again at once.
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

// dead is memberlist's message of that kind. From is the member that says it: a member that says
// it of itself has left.
type deadMessage struct {
	Incarnation uint32
	Node        string
	From        string
}

// deadNode has memberlist take such a message.
//
//go:linkname deadNode github.com/hashicorp/memberlist.(*Memberlist).deadNode
func deadNode(m *memberlist.Memberlist, d *deadMessage)

// markLeft has memberlist take a member for one that has left, whose address may change at once.
func markLeft(m *memberlist.Memberlist, id string) error {
	n, ok, err := incarnation(m, id)
	if err != nil || !ok {
		return err
	}
	deadNode(m, &deadMessage{Incarnation: n, Node: id, From: id})
	return nil
}

// incarnation returns the number of a member's last announcement; false: it is not known.
func incarnation(m *memberlist.Memberlist, id string) (n uint32, known bool, err error) {
	v := reflect.ValueOf(m).Elem()
	lock, nodes := v.FieldByName("nodeLock"), v.FieldByName("nodeMap")
	if !lock.IsValid() || lock.Type() != reflect.TypeFor[sync.RWMutex]() || nodes.Kind() != reflect.Map {
		return 0, false, errors.New("gossip: this version of memberlist keeps its members otherwise, so no member can be given another address")
	}
	mu := (*sync.RWMutex)(unsafe.Pointer(lock.UnsafeAddr())) //nolint:gosec // it is not exported
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
