package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"shardway/diagnosis"
	"shardway/endpoints"
	"shardway/internal/logsafe"
	"shardway/node/gossip"
)

const (
	// claimEvery is how often at most a claim of a node's address is checked, accepted or not.
	claimEvery = 500 * time.Millisecond
	// claimLimit bounds one check: a process that starts takes a moment to answer.
	claimLimit = 3 * time.Second
	claimAgain = 50 * time.Millisecond
	// claimShown is for how long it is told that a claim was not accepted.
	claimShown = 10 * time.Second
)

// readdressing are the claims of other addresses that are checked, or were refused lately.
type readdressing struct {
	mu  sync.Mutex
	all map[string]*claimed // by node
}

// claimed is the newest claim of one node.
type claimed struct {
	diagnosis.Moved
	at       time.Time
	running  bool
	accepted bool
}

// begin reports whether the claim must be checked now.
func (r *readdressing) begin(c gossip.Claim) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]*claimed{}
	}
	was := r.all[c.Member.ID]
	if was != nil && (was.running || time.Since(was.at) < claimEvery) {
		return false
	}
	r.all[c.Member.ID] = &claimed{Moved: diagnosis.Moved{Node: c.Member.ID, From: c.Known.String(), To: c.Member.Addr.String()}, at: time.Now(), running: true}
	return true
}

// end takes the result of the check; nil means that the address is the node's.
func (r *readdressing) end(node string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.all[node]
	c.running, c.at, c.accepted = false, time.Now(), err == nil
	if err != nil {
		c.Why = logsafe.OneLine(err.Error())
	}
}

// list returns the claims that are not accepted, ordered by node.
func (r *readdressing) list() (all []diagnosis.Moved) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for node, c := range r.all {
		if !c.running && time.Since(c.at) > claimShown {
			delete(r.all, node)
			continue
		}
		if !c.accepted {
			all = append(all, c.Moved)
		}
	}
	slices.SortFunc(all, func(a, b diagnosis.Moved) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// readdress accepts nodes that have started again at another address. Gossip alone would take 8
// to 11 s to do that after a crash.
//
// A claim is accepted if three facts hold, so that nobody can redirect a node's traffic by its
// name: nobody answers as the node at the address that is known; the process at the claimed peer
// address has the node's disk, which the peer port authenticates as it does any stream; and that
// process has a higher boot than is known of the disk, or is already the known one.
func (n *Node) readdress(ctx context.Context) {
	var checks sync.WaitGroup
	defer checks.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-n.gossip.Claims():
			if !c.Member.Node || c.Member.Err != nil || !n.moved.begin(c) {
				continue
			}
			checks.Go(func() {
				err := n.checkClaim(ctx, c)
				if err == nil {
					n.log.Info().Str("peer", c.Member.ID).Stringer("from", c.Known).Stringer("to", c.Member.Addr).Msg("node address changed")
					n.updateDirectory()
				} else if ctx.Err() == nil {
					n.log.Debug().Err(err).Str("peer", c.Member.ID).Stringer("to", c.Member.Addr).Msg("address claim refused")
				}
				n.moved.end(c.Member.ID, err)
			})
		}
	}
}

// checkClaim accepts a claim, or returns why not.
func (n *Node) checkClaim(ctx context.Context, c gossip.Claim) error {
	id, disk, addr := c.Member.ID, c.Member.Tags.Disk, c.Member.Tags.Endpoints[endpoints.Peer]
	if disk == "" || addr == "" {
		return errors.New("it announces no disk or no peer address")
	}
	members := n.gossip.Members()
	i := slices.IndexFunc(members, func(m gossip.Member) bool { return m.ID == id })
	if i < 0 {
		return errors.New("gossip does not know the node any more")
	}
	if was := members[i].Tags.Disk; was != disk {
		return fmt.Errorf("disk %s is claimed, and the node has disk %s", disk, was)
	}
	// Zero: this node has not met that disk yet.
	known, record := n.diskRecords.Known(id, disk)
	ctx, cancel := context.WithTimeout(ctx, claimLimit)
	defer cancel()
	asking, stop := context.WithTimeout(ctx, twinProbeTimeout)
	there, err := others{n}.Who(asking, id)
	stop()
	if err == nil && there.Disk == disk {
		return fmt.Errorf("the node answers at its known address, in boot %d", there.Boot)
	}
	for {
		far, err := n.port.Identify(ctx, id, disk, addr)
		switch {
		case err != nil:
		case far.Boot > known || far.Boot == known && far.Nonce == record.Nonce:
			return n.gossip.Readdress(id, c.Member.Addr)
		default:
			return fmt.Errorf("it is in boot %d, and boot %d is known of its disk", far.Boot, known)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(claimAgain):
		}
	}
}
