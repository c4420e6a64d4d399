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

// What nodes ask each other about secrets.
const (
	// AskLead is of the leader: have the secret replaced.
	AskLead = "rotate"
	// AskStep is of any node: take a step of that.
	AskStep = "secret"
)

// Cluster is what a Rotation asks of the node that it belongs to.
type Cluster interface {
	// Everybody returns the nodes that must follow, running or not, and the members
	// of gossip that are no nodes.
	Everybody() (nodes, outside []string)
	// Ask sends a node the words that compose makes for the stream to it, which
	// binding tells from all others, and returns the value of its reply.
	Ask(ctx context.Context, node, what string, compose func(binding []byte) (Proven, error)) (json.RawMessage, error)
	// Leads reports whether this node leads.
	Leads() bool
}

// Options is what a Rotation is made from.
type Options struct {
	// Self is the node's id.
	Self string
	// Secrets holds its secrets; nil: it has none, and nothing can be replaced.
	Secrets *secret.Store
	Cluster Cluster
	Log     zerolog.Logger
}

// Rotation is a node's part in replacing the secret.
type Rotation struct {
	o        Options
	running  sync.Mutex  // held while this node leads one
	refusals logs.Seldom // of steps, in the log
}

// New returns a Rotation. It starts nothing.
func New(o Options) *Rotation { return &Rotation{o: o} }

var (
	// ErrNoSecrets reports a node without a secret; it is an api.ErrRefused.
	ErrNoSecrets = fmt.Errorf("%w: this node has no secret file (--secret-file), so there is nothing to rotate", api.ErrRefused)
	errUnproven  = fmt.Errorf("%w: the other node shows none of the secrets that this one has", api.ErrRefused)
)

// Lead replaces the secret on every node. One that stopped half way is taken up
// where it stood. By tells the log who asked.
func (r *Rotation) Lead(ctx context.Context, by string) (api.Rotation, error) {
	if r.o.Secrets == nil {
		return api.Rotation{}, ErrNoSecrets
	}
	if !r.running.TryLock() {
		return api.Rotation{}, fmt.Errorf("%w: a rotation is running", api.ErrRefused)
	}
	defer r.running.Unlock()
	r.o.Log.Info().Str("by", logs.Cut(by)).Msg("secret rotation requested")
	x := &round{r: r}
	nodes, err := x.run(ctx)
	if err != nil {
		r.o.Log.Warn().Err(err).Msg("secret rotation stopped")
		return api.Rotation{}, fmt.Errorf("%w: %w", api.ErrRefused, err)
	}
	r.o.Log.Info().Str("secret", x.target.Fingerprint()).Strs("nodes", nodes).Msg("secret rotated")
	return api.Rotation{Secret: x.target.Fingerprint(), Nodes: nodes}, nil
}

// Ask has the leader replace the secret.
func (r *Rotation) Ask(ctx context.Context, leader, by string) (api.Rotation, error) {
	if r.o.Secrets == nil {
		return api.Rotation{}, ErrNoSecrets
	}
	var done api.Rotation
	shown, err := r.askProven(ctx, leader, AskLead, func([]byte) (any, error) { return by, nil }, &done)
	if err != nil {
		return api.Rotation{}, err
	}
	// What a leader says that is none of us may be anything.
	return done, current(r.o.Secrets.List(), shown, leader)
}
