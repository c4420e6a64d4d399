package embed

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/rs/zerolog"

	"shardway/config"
	"shardway/internal/logsafe"
	"shardway/internal/version"
	"shardway/node/process"
)

// Node is a node of a cluster in this process.
type Node struct {
	p   *process.Process
	log zerolog.Logger
}

// New judges the Config, opens the ports and the data directory, and starts nothing.
// Whoever has a Node runs it: what New has opened, Run closes. Mistakes in the Config
// are told all at once, each with its field, the value and what to do about it.
func New(c Config) (*Node, error) {
	settings, err := c.settings()
	switch {
	case errors.Is(err, config.ErrHelp):
		return nil, errors.New("embed: Config.Args asks for help: `shardway run --help` lists the settings")
	case err != nil:
		return nil, err
	case c.Handler == nil:
		return nil, errors.New("embed: Config.Handler is nil: name the app's handler; for an http.Handler, embed.HTTP(h)")
	}
	w := c.Log
	if w == nil {
		w = os.Stderr
	}
	console := settings.LogFormat == config.LogConsole || settings.LogFormat == config.LogAuto && logsafe.Terminal(w)
	n := &Node{log: logsafe.New(w, console).Level(logsafe.Level(settings.LogLevel))}
	exit := c.Exit
	if exit == nil {
		exit = func(error) { os.Exit(1) } //nolint:forbidigo // two owners are worse: see Config.Exit
	}
	// What New looks up it does at once: a context would have nothing to end.
	n.p, err = process.NewWith(context.Background(), &settings, version.Version, n.log, &process.App{
		Handler: c.Handler, Streams: c.StreamBodies, Hook: c.hook(),
		Overdue: func(why error) {
			n.log.Error().Err(why).Msg("handler did not return, process ends")
			exit(why)
		},
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Run runs the node until ctx ends and it has left, as `shardway run` does at SIGTERM,
// or until it fails. It returns after the last handler has. Call it once.
func (n *Node) Run(ctx context.Context) error { return n.p.Run(ctx) }

// ID returns the node's id.
func (n *Node) ID() string { return n.p.Node().ID() }

// Addr returns where app traffic comes in.
func (n *Node) Addr() net.Addr { return n.p.Addr() }

// Ready returns nil, or why requests would not be served here at this moment: what
// /readyz says.
func (n *Node) Ready() error {
	select {
	case <-n.p.Node().Started():
		return n.p.Node().Ready()
	default:
		return errors.New("embed: Run has not started the node yet")
	}
}

// Owner returns the id of the node that owns a key's shard by the last map that this
// node has applied; empty: nobody does, or there is no map yet. Whoever wants to be sure
// sends a request: only the owner's lease says that it still is.
func (n *Node) Owner(key string) string { return string(n.p.Node().Place([]byte(key)).Owner) }

// Epoch returns the ownership epoch of a key's shard by the same map, zero without an
// owner. It changes exactly when the owner does, and only grows: what a handler
// writes elsewhere is fenced by the one that came with its request (Shardway-Epoch).
func (n *Node) Epoch(key string) uint64 { return n.p.Node().Place([]byte(key)).Epoch }

// ShardOf returns the number of a key's shard.
func (n *Node) ShardOf(key string) int { return int(n.p.Node().Place([]byte(key)).Shard) }
