package identity

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"shardway/node/clusterid"
	"shardway/node/gossip"
	"shardway/peer"
)

const (
	// supersedeTimeout bounds the request to a node whose cluster claims to supersede the cluster of
	// this node. supersedeTimeoutAtStart is the bound if this node does not serve yet: it is short, so that this
	// node does not start to serve before it knows the result.
	supersedeTimeout        = 2 * time.Second
	supersedeTimeoutAtStart = 250 * time.Millisecond
	// supersedeRetryPause is the pause between an unconfirmed claim and the check of the next one.
	supersedeRetryPause = time.Second
)

// SupersedeCheck is the result of the check of a claim that another cluster supersedes the cluster of this
// node. A cluster that was recovered from a backup or from one survivor supersedes the old cluster.
type SupersedeCheck struct {
	Claim  *gossip.RefusedError // the claim, which came from gossip
	Served bool                 // this node served requests when the claim arrived
	By     string               // the superseding cluster, confirmed by one of its nodes; empty means not confirmed
}

// CheckSuperseded checks a claim: it asks the other node itself to which cluster it belongs. own is the cluster of
// this node, and serves reports whether this node serves requests. Gossip alone is not enough: anyone who has
// recorded a gossip message can resend it much later, and a node that stops because of a confirmed claim never
// serves again (see disk.Dir.MarkSuperseded). A node that does not serve yet stops after an unconfirmed claim, too,
// but it may be started again: if the other cluster could not be asked, both clusters would serve.
func CheckSuperseded(ctx context.Context, port *peer.Port, own string, claim *gossip.RefusedError, serves bool, log zerolog.Logger) SupersedeCheck {
	check, timeout := SupersedeCheck{Claim: claim, Served: serves}, supersedeTimeoutAtStart
	if serves {
		timeout = supersedeTimeout
	}
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	by, err := port.ClusterOf(asking, claim.Member, claim.PeerAddr)
	if err == nil && clusterid.Supersedes(by, own) {
		claim.RemoteValue, check.By = by, by // the confirmed cluster replaces the one that gossip has reported
		return check
	}
	log.Warn().Err(err).Str("peer", claim.Member).Str("addr", claim.PeerAddr).Str("belongs", by).Str("said", claim.RemoteValue).
		Msg("gossip reports recovered cluster, node disagrees")
	if serves {
		select {
		case <-time.After(supersedeRetryPause):
		case <-ctx.Done():
		}
	}
	return check
}
