package gossip

import (
	"net/netip"
	"strings"
	"time"

	"github.com/hashicorp/serf/serf"

	"shardway/internal/nodelabel"
)

// servicePrefix starts the name of a member that the command announce runs. No node ID contains a colon, so a
// service and a node never compete for a name.
const servicePrefix = "announce:"

// ServiceName returns the member name of an announced service.
func ServiceName(service string) string { return servicePrefix + service }

// DisplayName returns the name of a member for users: the name of the service if the command announce runs the
// member.
func DisplayName(member string) string { return strings.TrimPrefix(member, servicePrefix) }

// HasValidName reports whether users can tell the name of a member from other names. Serf accepts any bytes: spaces,
// control characters, characters that look like others, and names of any length.
func HasValidName(member string) bool { return nodelabel.IsID(DisplayName(member)) }

// isNode reports whether a member with this name and these tags is a node. A member whose name no node can have
// is not, even if its tags claim a node id. This includes the names of services, because no ID contains a colon.
func isNode(name, taggedNode string) bool { return taggedNode == name && nodelabel.IsID(name) }

// takesNodeID reports whether a member that is not a node has the name of a node with a server in Raft's
// configuration.
func (d *mergeDelegate) takesNodeID(member *serf.Member) bool {
	return d.isServer != nil && member.Status != serf.StatusLeft && !isNode(member.Name, member.Tags[tagNode]) && d.isServer(member.Name)
}

// nameConflictAge is how long an announcement of the name of this member at another address counts. It is
// longer than the interval of the state exchanges that repeat the announcement.
const nameConflictAge = 25 * time.Second

// nameHolder is another member that announces the name of this member.
type nameHolder struct {
	addr   netip.AddrPort
	seenAt time.Time
}

// NameConflict returns the address at which other members recently announced the name of this member, if it is
// not the address of this member. They ignore this member during the conflict. The conflict ends when the other process leaves,
// or some seconds after it has failed.
func (g *Gossip) NameConflict() (addr netip.AddrPort, found bool) {
	holder := g.addressClaims.holder.Load()
	if holder == nil || holder.addr == g.selfAddr || time.Since(holder.seenAt) > nameConflictAge {
		return netip.AddrPort{}, false
	}
	return holder.addr, true
}
