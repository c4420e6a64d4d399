package join

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of Decide and Request. The texts name the command that helps.
var (
	ErrNoRequest = errors.New("no such join request: `shardway joins` lists the requests")
	ErrIsMember  = errors.New("the node has joined: `shardway remove` removes a node")
	ErrExpired   = errors.New("the join request has expired: restart the node, so that it requests again")
	ErrRefused   = errors.New("the join request is refused already: `shardway approve` accepts it")
	ErrTicket    = errors.New("the join request has another ticket: `shardway joins` lists the requests")
	ErrFull      = fmt.Errorf("%d join requests are open, which is the maximum: approve or refuse some of them", MaxOpen)
)

// Options configures an Approval.
type Options struct {
	// Manual is set if an operator approves each request. Otherwise the leader adds servers without a request, and
	// the Approval makes no changes.
	Manual bool
	// Timeout is how long a request waits for a decision.
	Timeout time.Duration
	// BootstrapExpect is the number of nodes that join a new cluster without an approval.
	BootstrapExpect int
}

// Approval decides about join requests, for one term of one leader. One goroutine uses it. The caller must not use
// it before the state contains all entries of earlier leaders.
type Approval struct {
	options Options
	// waiting contains when this leader first saw each open request. A new leader starts the timeout again, because
	// the clocks of two leaders are not compared. No request expires early.
	waiting map[string]sighting
}

// sighting is the time at which this leader first saw the request with a ticket.
type sighting struct {
	ticket uint64
	seenAt time.Duration
}

// NewApproval returns the Approval of a leader.
func NewApproval(options Options) *Approval {
	return &Approval{options: options, waiting: map[string]sighting{}}
}

// ServerState is the state of a server in the Raft configuration, from the view of the leader.
type ServerState struct {
	Server string
	// HasCaughtUp is set if its node sends heartbeats and has applied the committed map.
	HasCaughtUp bool
	// IsActive is set if its node is in the committed map, or is a gateway.
	IsActive bool
}

// DueChanges returns the changes that follow from the time and from the state of the servers: requests that have
// expired, servers that have caught up or that own shards, and members without a record.
func (a *Approval) DueChanges(now time.Duration, records Records, servers []ServerState) (changes []Change) {
	if !a.options.Manual {
		return nil
	}
	for _, server := range servers {
		changes = append(changes, dueChange(records, server)...)
	}
	if !records.BootstrapEnded() {
		changes = append(changes, a.bootstrapChanges(records, servers)...)
	}
	changes = append(changes, a.expirations(now, records, servers)...)
	return changes[:min(len(changes), MaxChanges)]
}

// bootstrapChanges returns the changes of a cluster that has not had its expected number of bootstrap nodes yet. They
// accept the oldest open requests without a decision, up to that number of nodes.
func (a *Approval) bootstrapChanges(records Records, servers []ServerState) (changes []Change) {
	if len(servers) >= a.options.BootstrapExpect {
		return []Change{{Kind: EndBootstrap}}
	}
	nodes := map[string]bool{}
	for _, server := range servers {
		nodes[NodeOf(server.Server)] = true
	}
	all := records.All()
	for _, record := range all {
		if record.Stage.IsAdmitted() {
			nodes[record.Node()] = true
		}
	}
	slices.SortFunc(all, func(a, b Record) int { return cmp.Compare(a.Ticket, b.Ticket) })
	for _, record := range all {
		if record.Stage != Requested || len(nodes) >= a.options.BootstrapExpect && !nodes[record.Node()] {
			continue
		}
		nodes[record.Node()] = true
		changes = append(changes, Change{Kind: Accept, Server: record.Server, Ticket: record.Ticket})
	}
	return changes
}

// dueChange returns the change of the record of a server in the configuration.
func dueChange(records Records, server ServerState) []Change {
	record, _ := records.Of(server.Server)
	switch {
	case record.Stage == Accepted && server.HasCaughtUp:
		return []Change{{Kind: Synchronize, Server: server.Server, Ticket: record.Ticket}}
	case record.Stage == Synchronized && server.IsActive:
		return []Change{{Kind: Activate, Server: server.Server, Ticket: record.Ticket}}
	case record.Stage.IsAdmitted():
		return nil
	}
	if other, isKnown := records.Admitted(NodeOf(server.Server)); isKnown && other.Stage == Accepted {
		return nil // the accepted disk replaces this server
	}
	return []Change{{Kind: Import, Server: server.Server}}
}

// expirations returns the changes that end requests without a decision. A request of a server in the configuration
// does not expire, because the server is imported.
func (a *Approval) expirations(now time.Duration, records Records, servers []ServerState) (changes []Change) {
	waiting := map[string]sighting{}
	for _, record := range records.All() {
		if record.Stage != Requested {
			continue
		}
		seen, isKnown := a.waiting[record.Server]
		if !isKnown || seen.ticket != record.Ticket {
			seen = sighting{ticket: record.Ticket, seenAt: now}
		}
		waiting[record.Server] = seen
		isServer := slices.ContainsFunc(servers, func(server ServerState) bool { return server.Server == record.Server })
		if !isServer && now-seen.seenAt >= a.options.Timeout {
			changes = append(changes, Change{Kind: Expire, Server: record.Server, Ticket: record.Ticket})
		}
	}
	a.waiting = waiting
	return changes
}

// RemainingTime returns how long a request still waits for a decision. It is zero if the request does not wait.
func (a *Approval) RemainingTime(now time.Duration, record Record) time.Duration {
	seen, isKnown := a.waiting[record.Server]
	if record.Stage != Requested || !isKnown || seen.ticket != record.Ticket {
		return 0
	}
	return max(seen.seenAt+a.options.Timeout-now, 0)
}

// MayAdd reports whether the leader may add a server to the Raft configuration.
func (a *Approval) MayAdd(records Records, server string) bool {
	return !a.options.Manual || records.IsAdmitted(server)
}

// RequestChange returns the change for a server that the leader may not add yet, and that has just confirmed its disk and
// its incarnation. needed is false if there is a request of this server already. ErrFull refuses a further request.
func (a *Approval) RequestChange(records Records, server string, boot uint64) (change Change, needed bool, err error) {
	record, exists := records.Of(server)
	isRenewed := record.Stage == Expired && boot > record.Boot
	if exists && !isRenewed {
		return Change{}, false, nil
	}
	if records.Count(Requested) >= MaxOpen {
		return Change{}, false, ErrFull
	}
	return Change{Kind: Request, Server: server, Boot: boot}, true, nil
}

// Decision is the decision of an operator about the request of a node.
type Decision struct {
	Node    string
	Approve bool
	// Ticket is the ticket of the request; zero means the current request of the node.
	Ticket uint64
	Reason string
}

// Decide returns the change of a decision, or why it is not possible.
func Decide(records Records, decision Decision) (Change, error) {
	record, exists := records.Undecided(decision.Node)
	if _, isMember := records.Admitted(decision.Node); !exists && isMember {
		return Change{}, ErrIsMember
	}
	switch {
	case !exists:
		return Change{}, ErrNoRequest
	case decision.Ticket != 0 && decision.Ticket != record.Ticket:
		return Change{}, ErrTicket
	case record.Stage == Expired:
		return Change{}, ErrExpired
	case record.Stage == Refused && !decision.Approve:
		return Change{}, ErrRefused
	}
	change := Change{Kind: Refuse, Server: record.Server, Ticket: record.Ticket, Reason: decision.Reason}
	if decision.Approve {
		change.Kind = Accept
	}
	return change, nil
}
