package node

import (
	"context"
	"errors"
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
	// peerCheckAfter is how long a node waits to be added to a cluster before it checks whether other
	// nodes reach its peer port. It is also how long the leader must fail to reach a node before it
	// reports that.
	peerCheckAfter = 3 * time.Second
	// peerCheckEvery is the time between two checks. peerCheckLimit bounds the request to one node.
	peerCheckEvery = 3 * time.Second
	peerCheckLimit = 4 * time.Second
	// maxPeersAsked is the largest number of nodes that one check asks until a node responds.
	maxPeersAsked = 5
)

// reachability is the response of a node that was asked whether it reaches the peer port of the
// requester. Addr is the address that it has tried. Why is the error; empty means that the port was
// reached.
type reachability struct {
	Addr string `json:"addr"`
	Why  string `json:"why"`
}

// reachable checks whether this node reaches the peer port of the requester node, at the address that
// gossip contains.
func (n *Node) reachable(ctx context.Context, node string) (r reachability) {
	addr, ok := n.view.Lookup(node)
	if !ok {
		return reachability{Why: "gossip contains no peer address of it yet"}
	}
	ctx, cancel := context.WithTimeout(ctx, adminapi.ReachTimeout)
	defer cancel()
	r.Addr = addr
	if _, err := (peerClient{n}).RequestIdentity(ctx, node); err != nil {
		r.Why = dialFailureReason(err)
	}
	return r
}

// dialFailureReason returns the text of an error of a request to a node, without the address of the node.
func dialFailureReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within 1 s"
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

// peerCheck determines why a node is not added to a cluster: it asks a member of the cluster whether it
// reaches the peer port of this node. The leader reports the same problem, but only to members, and this
// node has no leader yet. A node that bootstraps a cluster together with other nodes asks all of them.
type peerCheck struct {
	waits diagnosis.TrueFor // how long this node has waited; only the goroutine of watch.run uses it

	// mu protects the following fields.
	mu      sync.Mutex
	running bool                           // a check is in progress
	asked   time.Time                      // start of the last check
	found   *diagnosis.UnreachablePeerPort // result of the last check; nil means that no problem was found
}

// startIfDue starts a check in the background if one is due. unstarted is nil if this node belongs to a cluster.
func (p *peerCheck) startIfDue(ctx context.Context, w *watch, now time.Time, unstarted *diagnosis.Bootstrap) {
	cluster := unstarted.WaitReason()
	waiting := cluster != "" || unstarted.IsBootstrapper()
	waits := p.waits.Update(now, waiting)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !waiting {
		p.found = nil
	}
	if waits < peerCheckAfter || p.running || now.Sub(p.asked) < peerCheckEvery {
		return
	}
	p.running, p.asked = true, now
	w.probing.Go(func() {
		found := w.n.checkPeerPort(ctx, cluster)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running, p.found = false, found
	})
}

// problems returns the problem that the last check found, or nil.
func (p *peerCheck) problems() []diagnosis.UnreachablePeerPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		return nil
	}
	return []diagnosis.UnreachablePeerPort{*p.found}
}

// checkPeerPort asks members of cluster, until one responds, whether they reach the peer port of this
// node. It returns nil if the member reaches it, or if nothing is known. If cluster is empty, it asks the
// nodes that belong to no cluster yet. Then it continues until it finds a node that it does not reach, or
// a node that does not reach this node, because a joint bootstrap needs every connection.
func (n *Node) checkPeerPort(ctx context.Context, cluster string) (found *diagnosis.UnreachablePeerPort) {
	self, asked := string(n.self), 0
	for _, m := range n.gossip.Members() {
		if !m.Node || m.ID == self || m.Status != gossip.Alive || m.Tags.Cluster != cluster {
			continue
		}
		if asked++; asked > maxPeersAsked {
			break
		}
		asking, cancel := context.WithTimeout(ctx, peerCheckLimit)
		var r reachability
		err := n.client.Call(asking, m.ID, control.Request{Kind: control.Reachable}, &r)
		cancel()
		// This node cannot reach the other one. That is the result if no node reports a problem with this node.
		if _, undialed := errors.AsType[control.DialError](err); undialed && found == nil {
			addr, _ := n.view.Lookup(m.ID)
			found = &diagnosis.UnreachablePeerPort{Node: m.ID, By: self, Addr: addr, Why: dialFailureReason(err)}
		}
		if err != nil {
			continue
		}
		switch {
		case r.Why == "" && cluster != "":
			return nil
		case r.Why == "": // without a cluster, the remaining nodes must be checked, too
			continue
		}
		return &diagnosis.UnreachablePeerPort{Node: self, By: m.ID, Addr: r.Addr, Why: logsafe.OneLine(r.Why)}
	}
	return found
}

// unconfirmed returns the nodes that this leader does not add to the cluster because it has not reached
// their peer ports for peerCheckAfter. It returns nil if this node does not lead.
func (n *Node) unconfirmed() []diagnosis.UnreachablePeerPort {
	l := n.leading.Load()
	if l == nil {
		return nil
	}
	all := []diagnosis.UnreachablePeerPort{}
	for _, u := range l.Unconfirmed() {
		if time.Since(u.Since) < peerCheckAfter {
			continue
		}
		addr, _ := n.view.Lookup(u.Node)
		all = append(all, diagnosis.UnreachablePeerPort{Node: u.Node, By: string(n.self), Addr: addr, Why: dialFailureReason(u.Err)})
	}
	return all
}
