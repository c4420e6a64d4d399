package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/diagnosis"
	"shardway/endpoints"
	"shardway/internal/logsafe"
	"shardway/node/cluster"
	"shardway/node/gossip"
	"shardway/node/membership"
	"shardway/peer"
)

const (
	// checkEvery is the shortest time between two checks of claims of the same node.
	checkEvery = 500 * time.Millisecond
	// checkTimeout bounds one check. It is long because a process that has just started may not respond at
	// once. dialRetryPause is the pause between two attempts to connect within a check.
	checkTimeout   = 3 * time.Second
	dialRetryPause = 50 * time.Millisecond
	// reportedFor is how long a refused claim is reported.
	reportedFor = 10 * time.Second
)

// AddressChanges checks claims of new addresses, and contains the claims that are being checked or were
// checked recently. A claim is a message in gossip which says that a known node has a new address.
type AddressChanges struct {
	Gossip  *gossip.Gossip
	View    *cluster.View
	Port    *peer.Port
	Records *Records
	// RequestIdentity asks the process at the known address of a node for its identity.
	RequestIdentity func(ctx context.Context, node string) (membership.Process, error)
	Log             zerolog.Logger

	mu     sync.Mutex
	claims map[string]*addressClaim // by node; mu protects it
}

// addressClaim is the newest claim for one node.
type addressClaim struct {
	diagnosis.AddressChange
	at       time.Time // start of the check, then its end
	running  bool      // the check is in progress
	accepted bool      // result of the check
}

// begin reports whether the claim c must be checked now. If so, it records that the check is in progress.
func (a *AddressChanges) begin(c gossip.AddressClaim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.claims == nil {
		a.claims = map[string]*addressClaim{}
	}
	previous := a.claims[c.Member.ID]
	if previous != nil && (previous.running || time.Since(previous.at) < checkEvery) {
		return false
	}
	a.claims[c.Member.ID] = &addressClaim{AddressChange: diagnosis.AddressChange{Node: c.Member.ID, From: c.PreviousAddr.String(), To: c.Member.Addr.String()}, at: time.Now(), running: true}
	return true
}

// end records the result of the check of a claim. A nil error means that the claim was accepted.
func (a *AddressChanges) end(node string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.claims[node]
	c.running, c.at, c.accepted = false, time.Now(), err == nil
	if err != nil {
		c.Why = logsafe.OneLine(err.Error())
	}
}

// List returns the claims that are not accepted, sorted by node. It deletes old claims.
func (a *AddressChanges) List() (refused []diagnosis.AddressChange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for node, c := range a.claims {
		if !c.running && time.Since(c.at) > reportedFor {
			delete(a.claims, node)
			continue
		}
		if !c.accepted {
			refused = append(refused, c.AddressChange)
		}
	}
	slices.SortFunc(refused, func(x, y diagnosis.AddressChange) int { return cmp.Compare(x.Node, y.Node) })
	return refused
}

// Run accepts the new addresses of nodes that have restarted at another address, until ctx ends.
// After a crash, gossip alone would need 8 to 11 s to accept a new address.
//
// A claim is accepted only under three conditions. Without them, anyone who can send gossip could redirect
// the traffic of a node:
//
//   - No process responds as the node at the known address.
//   - The process at the claimed peer address has the disk of the node. The peer port authenticates it.
//   - That process has a higher boot number than the record of the disk, or is the process in the record.
func (a *AddressChanges) Run(ctx context.Context) {
	var checks sync.WaitGroup
	defer checks.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-a.Gossip.AddressClaims():
			if !c.Member.Node || c.Member.Err != nil || !a.begin(c) {
				continue
			}
			checks.Go(func() {
				err := a.checkClaim(ctx, c)
				if err == nil {
					a.Log.Info().Str("peer", c.Member.ID).Stringer("from", c.PreviousAddr).Stringer("to", c.Member.Addr).Msg("node address changed")
					a.View.Update()
				} else if ctx.Err() == nil {
					a.Log.Debug().Err(err).Str("peer", c.Member.ID).Stringer("to", c.Member.Addr).Msg("address claim refused")
				}
				a.end(c.Member.ID, err)
			})
		}
	}
}

// checkClaim checks a claim and accepts it, or returns the reason for refusing it.
func (a *AddressChanges) checkClaim(ctx context.Context, c gossip.AddressClaim) error {
	id, disk, addr := c.Member.ID, c.Member.Tags.Disk, c.Member.Tags.Endpoints[endpoints.Peer]
	if disk == "" || addr == "" {
		return errors.New("it announces no disk or no peer address")
	}
	members := a.Gossip.Members()
	i := slices.IndexFunc(members, func(m gossip.Member) bool { return m.ID == id })
	if i < 0 {
		return errors.New("gossip does not know the node any more")
	}
	if was := members[i].Tags.Disk; was != disk {
		return fmt.Errorf("disk %s is claimed, and the node has disk %s", disk, was)
	}
	// known is zero if this node has no record of that disk yet.
	known, record := a.Records.RecordOf(id, disk)
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	asking, stop := context.WithTimeout(ctx, processProbeTimeout)
	current, err := a.RequestIdentity(asking, id)
	stop()
	if err == nil && current.Disk == disk {
		return fmt.Errorf("the node answers at its known address, in boot %d", current.Boot)
	}
	for {
		far, err := a.Port.Identify(ctx, id, disk, addr)
		switch {
		case err != nil: // retry: the process may have just started
		case far.Boot > known || far.Boot == known && far.Nonce == record.Nonce:
			return a.Gossip.ChangeAddress(id, c.Member.Addr)
		default:
			return fmt.Errorf("it is in boot %d, and boot %d is known of its disk", far.Boot, known)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(dialRetryPause):
		}
	}
}
