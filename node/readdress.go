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
	// claimEvery is the shortest time between two checks of claims of the same node.
	claimEvery = 500 * time.Millisecond
	// claimLimit bounds one check. It is long because a process that has just started may not respond at
	// once. claimAgain is the pause between two attempts to connect within a check.
	claimLimit = 3 * time.Second
	claimAgain = 50 * time.Millisecond
	// claimShown is how long a refused claim is reported.
	claimShown = 10 * time.Second
)

// readdressing contains the claims that are being checked or were checked recently. A claim is a message in
// gossip which says that a known node has a new address.
type readdressing struct {
	mu  sync.Mutex
	all map[string]*claimed // by node
}

// claimed is the newest claim for one node.
type claimed struct {
	diagnosis.AddressChange
	at       time.Time // start of the check, then its end
	running  bool      // the check is in progress
	accepted bool      // result of the check
}

// begin reports whether the claim c must be checked now. If so, it records that the check is in progress.
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
	r.all[c.Member.ID] = &claimed{AddressChange: diagnosis.AddressChange{Node: c.Member.ID, From: c.Known.String(), To: c.Member.Addr.String()}, at: time.Now(), running: true}
	return true
}

// end records the result of the check of a claim. A nil error means that the claim was accepted.
func (r *readdressing) end(node string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.all[node]
	c.running, c.at, c.accepted = false, time.Now(), err == nil
	if err != nil {
		c.Why = logsafe.OneLine(err.Error())
	}
}

// list returns the claims that are not accepted, sorted by node. It deletes old claims.
func (r *readdressing) list() (all []diagnosis.AddressChange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for node, c := range r.all {
		if !c.running && time.Since(c.at) > claimShown {
			delete(r.all, node)
			continue
		}
		if !c.accepted {
			all = append(all, c.AddressChange)
		}
	}
	slices.SortFunc(all, func(a, b diagnosis.AddressChange) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// readdress accepts the new addresses of nodes that have restarted at another address, until ctx ends.
// After a crash, gossip alone would need 8 to 11 s to accept a new address.
//
// A claim is accepted only under three conditions. Without them, anyone who can send gossip could redirect
// the traffic of a node:
//
//   - No process responds as the node at the known address.
//   - The process at the claimed peer address has the disk of the node. The peer port authenticates it.
//   - That process has a higher boot number than the record of the disk, or is the process in the record.
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
					n.view.Update()
				} else if ctx.Err() == nil {
					n.log.Debug().Err(err).Str("peer", c.Member.ID).Stringer("to", c.Member.Addr).Msg("address claim refused")
				}
				n.moved.end(c.Member.ID, err)
			})
		}
	}
}

// checkClaim checks a claim and accepts it, or returns the reason for refusing it.
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
	// known is zero if this node has no record of that disk yet.
	known, record := n.diskRecords.RecordOf(id, disk)
	ctx, cancel := context.WithTimeout(ctx, claimLimit)
	defer cancel()
	asking, stop := context.WithTimeout(ctx, twinProbeTimeout)
	there, err := peerClient{n}.RequestIdentity(asking, id)
	stop()
	if err == nil && there.Disk == disk {
		return fmt.Errorf("the node answers at its known address, in boot %d", there.Boot)
	}
	for {
		far, err := n.port.Identify(ctx, id, disk, addr)
		switch {
		case err != nil: // retry: the process may have just started
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
