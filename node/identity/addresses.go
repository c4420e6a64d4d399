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
	// checkEvery is the minimum time between two checks of claims of the same node.
	checkEvery = 500 * time.Millisecond
	// checkTimeout bounds one check. It is long because a process that has just started may not respond at
	// once. dialRetryPause is the pause between two attempts to connect within a check.
	checkTimeout   = 3 * time.Second
	dialRetryPause = 50 * time.Millisecond
	// reportedFor is how long a refused claim is reported.
	reportedFor = 10 * time.Second
)

// AddressChanges checks claims of new addresses, and contains the claims that are being checked or were checked
// recently. A claim is a gossip message that a known node has a new address.
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
	isChecking bool      // the check is in progress
	checkedAt  time.Time // start of the check while it is in progress, then its end
	isAccepted bool      // result of the check
}

// startCheck reports whether a claim must be checked now. If so, it records that the check is in progress.
func (a *AddressChanges) startCheck(claim gossip.AddressClaim) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.claims == nil {
		a.claims = map[string]*addressClaim{}
	}
	node := claim.Member.ID
	previous := a.claims[node]
	if previous != nil && (previous.isChecking || time.Since(previous.checkedAt) < checkEvery) {
		return false
	}
	a.claims[node] = &addressClaim{
		AddressChange: diagnosis.AddressChange{Node: node, From: claim.PreviousAddr.String(), To: claim.Member.Addr.String()},
		isChecking:    true, checkedAt: time.Now(),
	}
	return true
}

// recordResult records the result of the check of a claim. A nil error means that the claim was accepted.
func (a *AddressChanges) recordResult(node string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	claim := a.claims[node]
	claim.isChecking, claim.checkedAt, claim.isAccepted = false, time.Now(), err == nil
	if err != nil {
		claim.Why = logsafe.OneLine(err.Error())
	}
}

// List returns the claims that are not accepted, sorted by node. It deletes old claims.
func (a *AddressChanges) List() (refused []diagnosis.AddressChange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for node, claim := range a.claims {
		if !claim.isChecking && time.Since(claim.checkedAt) > reportedFor {
			delete(a.claims, node)
			continue
		}
		if !claim.isAccepted {
			refused = append(refused, claim.AddressChange)
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
		case claim := <-a.Gossip.AddressClaims():
			isValid := claim.Member.Node && claim.Member.Err == nil
			if isValid && a.startCheck(claim) {
				checks.Go(func() { a.handleClaim(ctx, claim) })
			}
		}
	}
}

// handleClaim checks a claim, accepts or refuses it, and records the result.
func (a *AddressChanges) handleClaim(ctx context.Context, claim gossip.AddressClaim) {
	node := claim.Member.ID
	err := a.checkClaim(ctx, claim)
	if err == nil {
		err = a.Gossip.ChangeAddress(node, claim.Member.Addr)
	}
	if err == nil {
		a.Log.Info().Str("peer", node).Stringer("from", claim.PreviousAddr).Stringer("to", claim.Member.Addr).Msg("node address changed")
		a.View.Update()
	} else if ctx.Err() == nil {
		a.Log.Debug().Err(err).Str("peer", node).Stringer("to", claim.Member.Addr).Msg("address claim refused")
	}
	a.recordResult(node, err)
}

// checkClaim returns nil if a claim meets the conditions of Run, otherwise the reason for refusing it.
func (a *AddressChanges) checkClaim(ctx context.Context, claim gossip.AddressClaim) error {
	node, claimedDisk, claimedAddr := claim.Member.ID, claim.Member.Tags.Disk, claim.Member.Tags.Endpoints[endpoints.Peer]
	if claimedDisk == "" || claimedAddr == "" {
		return errors.New("it announces no disk or no peer address")
	}
	members := a.Gossip.Members()
	i := slices.IndexFunc(members, func(m gossip.Member) bool { return m.ID == node })
	if i < 0 {
		return errors.New("the node is no longer a member of gossip")
	}
	if knownDisk := members[i].Tags.Disk; knownDisk != claimedDisk {
		return fmt.Errorf("disk %s is claimed, and the node has disk %s", claimedDisk, knownDisk)
	}
	recordedBoot, record := a.Records.RecordOf(node, claimedDisk) // zero if this node has no record of that disk yet
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if current, ok := a.processAtKnownAddr(ctx, node, claimedDisk); ok {
		return fmt.Errorf("the node answers at its known address, in boot %d", current.Boot)
	}
	claimed, err := a.identifyWithRetries(ctx, node, claimedDisk, claimedAddr)
	if err != nil {
		return err
	}
	isRecordedProcess := claimed.Boot == recordedBoot && claimed.Nonce == record.Nonce
	if isNewer := claimed.Boot > recordedBoot; isNewer || isRecordedProcess {
		return nil
	}
	return fmt.Errorf("it is in boot %d, and boot %d is known of its disk", claimed.Boot, recordedBoot)
}

// processAtKnownAddr returns the process that responds at the known address of a node. The second result is
// false if no process with this disk responds there.
func (a *AddressChanges) processAtKnownAddr(ctx context.Context, node, disk string) (membership.Process, bool) {
	ctx, cancel := context.WithTimeout(ctx, processProbeTimeout)
	defer cancel()
	process, err := a.RequestIdentity(ctx, node)
	return process, err == nil && process.Disk == disk
}

// identifyWithRetries returns the identity of the process at a peer address, which must have this disk. It
// retries until ctx ends, because the process may have just started.
func (a *AddressChanges) identifyWithRetries(ctx context.Context, node, disk, addr string) (peer.Identity, error) {
	for {
		identity, err := a.Port.Identify(ctx, node, disk, addr)
		if err == nil {
			return identity, nil
		}
		select {
		case <-ctx.Done():
			return peer.Identity{}, err
		case <-time.After(dialRetryPause):
		}
	}
}
