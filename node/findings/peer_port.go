package findings

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"shardway/diagnosis"
	"shardway/internal/logsafe"
	"shardway/node/adminapi"
	"shardway/node/control"
	"shardway/node/gossip"
)

const (
	// unreachableAfter is how long a node waits to be added to a cluster before it checks whether other
	// nodes reach its peer port. It is also how long the leader must fail to reach a node before it
	// reports that.
	unreachableAfter = 3 * time.Second
	// checkEvery is the time between two checks. checkTimeout bounds the request to one node.
	checkEvery   = 3 * time.Second
	checkTimeout = 4 * time.Second
	// maxPeersAsked is the maximum number of nodes that one check asks until a node responds.
	maxPeersAsked = 5
)

// Reachability is the response of a node that was asked whether it reaches the peer port of the
// requester.
type Reachability struct {
	// Addr is the address to which the responding node has tried to connect.
	Addr string `json:"addr"`
	// Why is the reason why the attempt failed. It is empty if the port was reached.
	Why string `json:"why"`
}

// Reach checks whether this node reaches the peer port of the requester node, at the address that
// gossip contains.
func (m *Monitor) Reach(ctx context.Context, node string) (r Reachability) {
	addr, ok := m.options.View.Lookup(node)
	if !ok {
		return Reachability{Why: "gossip contains no peer address of it yet"}
	}
	ctx, cancel := context.WithTimeout(ctx, adminapi.DialTimeout)
	defer cancel()
	r.Addr = addr
	if err := m.options.RequestIdentity(ctx, node); err != nil {
		r.Why = dialFailureReason(err)
	}
	return r
}

// dialFailureReason returns the text of an error of a request to a node, without the address of the node.
func dialFailureReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %d s", adminapi.DialTimeout/time.Second)
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		return call.Err.Error()
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if short := adminapi.DialErrorText(inner); short != inner.Error() {
			return logsafe.OneLine(short)
		}
	}
	return logsafe.OneLine(err.Error())
}

// peerPortCheck determines why a node is not added to a cluster: it asks a member of the cluster whether it
// reaches the peer port of this node. The leader reports the same problem, but only to members, and this
// node has no leader yet. A node that bootstraps a cluster together with other nodes asks all of them.
type peerPortCheck struct {
	waiting diagnosis.ConditionTimer // how long this node has waited; only the goroutine of Monitor.Run uses it

	// mu protects the following fields.
	mu      sync.Mutex
	running bool                           // a check is in progress
	asked   time.Time                      // start of the last check
	problem *diagnosis.UnreachablePeerPort // result of the last check; nil means that it found no problem
}

// startIfDue starts a check in the background if one is due. bootstrap is nil if this node belongs to a cluster.
func (p *peerPortCheck) startIfDue(ctx context.Context, m *Monitor, now time.Time, bootstrap *diagnosis.Bootstrap) {
	cluster := bootstrap.WaitsForCluster()
	waiting := cluster != "" || bootstrap.IsBootstrapper()
	waitedFor := p.waiting.Update(now, waiting)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !waiting {
		p.problem = nil
	}
	if waitedFor < unreachableAfter || p.running || now.Sub(p.asked) < checkEvery {
		return
	}
	p.running, p.asked = true, now
	m.background.Go(func() {
		problem := m.checkPeerPort(ctx, cluster)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running, p.problem = false, problem
	})
}

// problems returns the problem that the last check has found, as a list for the inputs of the diagnosis.
// The list is nil if there is no problem.
func (p *peerPortCheck) problems() []diagnosis.UnreachablePeerPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.problem == nil {
		return nil
	}
	return []diagnosis.UnreachablePeerPort{*p.problem}
}

// checkPeerPort asks members of cluster, until one responds, whether they reach the peer port of this
// node. It returns nil if that member reaches the port, or if no member responds. If cluster is empty, it
// asks the nodes that belong to no cluster yet. In this case it does not stop at the first response,
// because a joint bootstrap needs connections between all nodes in both directions. It then returns the
// first connection that fails.
func (m *Monitor) checkPeerPort(ctx context.Context, cluster string) (problem *diagnosis.UnreachablePeerPort) {
	self, asked := string(m.options.Self), 0
	for _, member := range m.options.Gossip.Members() {
		isOtherNode := member.Node && member.ID != self && member.Status == gossip.Alive
		if !isOtherNode || member.Tags.Cluster != cluster {
			continue
		}
		if asked++; asked > maxPeersAsked {
			break
		}
		response, err := m.askReachability(ctx, member.ID)
		// This node cannot reach the other one. That is the result if no node reports a problem with this node.
		if _, isUnreachable := errors.AsType[control.DialError](err); isUnreachable && problem == nil {
			addr, _ := m.options.View.Lookup(member.ID)
			problem = &diagnosis.UnreachablePeerPort{Node: member.ID, ReportedBy: self, Addr: addr, Why: dialFailureReason(err)}
		}
		if err != nil {
			continue
		}
		if response.Why != "" {
			return &diagnosis.UnreachablePeerPort{Node: self, ReportedBy: member.ID, Addr: response.Addr, Why: logsafe.OneLine(response.Why)}
		}
		if cluster != "" {
			return nil
		}
		// without a cluster, the remaining nodes must also be checked
	}
	return problem
}

// askReachability asks a node whether it reaches the peer port of this node.
func (m *Monitor) askReachability(ctx context.Context, node string) (response Reachability, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err = m.options.Client.Call(ctx, node, control.Request{Kind: control.Reachable}, &response)
	return response, err
}

// Unconfirmed returns the nodes that this leader does not add to the cluster because it has not reached
// their peer ports for unreachableAfter. It returns nil if this node does not lead.
func (m *Monitor) Unconfirmed() []diagnosis.UnreachablePeerPort {
	l := m.options.Leader.CurrentLeadership()
	if l == nil {
		return nil
	}
	all := []diagnosis.UnreachablePeerPort{}
	for _, u := range l.Unconfirmed() {
		if time.Since(u.Since) < unreachableAfter {
			continue
		}
		addr, _ := m.options.View.Lookup(u.Node)
		all = append(all, diagnosis.UnreachablePeerPort{Node: u.Node, ReportedBy: string(m.options.Self), Addr: addr, Why: dialFailureReason(u.Err)})
	}
	return all
}
