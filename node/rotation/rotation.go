package rotation

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/rs/zerolog"

	"shardway/admin/api"
	"shardway/internal/secret"
	"shardway/node/logs"
)

// The kinds of requests about secrets between nodes.
const (
	// AskLead asks the leader to replace the secret.
	AskLead = "rotate"
	// AskStep asks a node to perform one step of a rotation.
	AskStep = "secret"
)

// Cluster is the interface of a Rotation to its node.
type Cluster interface {
	// AllNodes returns the nodes that must take part in a rotation, running or not, and the members
	// of gossip that are not nodes (outside).
	AllNodes() (nodes, outside []string)
	// Ask sends a request to a node and returns the value of the response. compose creates the content of the
	// request; binding is the channel binding of the stream, which identifies it.
	Ask(ctx context.Context, node, kind string, compose func(binding []byte) (Proven, error)) (json.RawMessage, error)
	// Leads reports whether this node leads.
	Leads() bool
}

// Options contains the dependencies of a Rotation.
type Options struct {
	// Self is the ID of the node.
	Self string
	// Secrets contains the secrets of the node. If it is nil, the node has none, and refuses each
	// rotation.
	Secrets *secret.Store
	Cluster Cluster
	Log     zerolog.Logger
}

// Rotation performs this node's part in a rotation of the secret, as the leader or as another node.
type Rotation struct {
	options  Options
	running  sync.Mutex       // held while this node leads a rotation
	refusals logs.PeerLimiter // limits the log lines about refused steps
}

// New returns a Rotation. It starts nothing.
func New(options Options) *Rotation { return &Rotation{options: options} }

var (
	// ErrNoSecrets reports that the node has no secret. It wraps api.ErrRefused.
	ErrNoSecrets = fmt.Errorf("%w: this node has no secret file (--secret-file), so there is nothing to rotate", api.ErrRefused)
	errUnproven  = fmt.Errorf("%w: the other node shows none of the secrets that this one has", api.ErrRefused)
)

// Lead replaces the secret on all nodes. An interrupted rotation continues at the step at which it was
// interrupted. by is the requester, for the log.
func (r *Rotation) Lead(ctx context.Context, by string) (api.Rotation, error) {
	if r.options.Secrets == nil {
		return api.Rotation{}, ErrNoSecrets
	}
	if !r.running.TryLock() {
		return api.Rotation{}, fmt.Errorf("%w: a rotation is running", api.ErrRefused)
	}
	defer r.running.Unlock()
	r.options.Log.Info().Str("by", logs.Cut(by)).Msg("secret rotation requested")
	current := &round{rotation: r}
	nodes, err := current.run(ctx)
	if err != nil {
		r.options.Log.Warn().Err(err).Msg("secret rotation stopped")
		return api.Rotation{}, fmt.Errorf("%w: %w", api.ErrRefused, err)
	}
	target := current.target.Fingerprint()
	r.options.Log.Info().Str("secret", target).Strs("nodes", nodes).Msg("secret rotated")
	return api.Rotation{Secret: target, Nodes: nodes}, nil
}

// Ask asks the leader to replace the secret. by is the requester, for the leader's log.
func (r *Rotation) Ask(ctx context.Context, leader, by string) (api.Rotation, error) {
	if r.options.Secrets == nil {
		return api.Rotation{}, ErrNoSecrets
	}
	var result api.Rotation
	proven, err := r.askProven(ctx, leader, AskLead, func([]byte) (any, error) { return by, nil }, &result)
	if err != nil {
		return api.Rotation{}, err
	}
	// The response of a leader without the newest secret is not trustworthy.
	return result, checkHasNewest(leader, proven, r.options.Secrets.List())
}
