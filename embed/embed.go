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
	process   *process.Process
	callbacks *callbacks // nil means that the app has none
	log       zerolog.Logger
}

// New validates the Config and opens the ports and the data directory. It starts nothing. The
// caller must call Run, which closes what New has opened. The error contains all mistakes in the
// Config, each with its field, its value and the remedy.
func New(c Config) (*Node, error) {
	settings, err := c.settings()
	switch {
	case errors.Is(err, config.ErrHelp):
		return nil, errors.New("embed: Config.Args asks for help: `shardway run --help` lists the settings")
	case err != nil:
		return nil, err
	case c.Handler == nil:
		return nil, errors.New("embed: Config.Handler is nil: set the handler of the app; for an http.Handler use embed.HTTP(h)")
	}
	logWriter := c.Log
	if logWriter == nil {
		logWriter = os.Stderr
	}
	console := settings.LogFormat == config.LogConsole || settings.LogFormat == config.LogAuto && logsafe.IsTerminal(logWriter)
	n := &Node{log: logsafe.New(logWriter, console).Level(logsafe.Level(settings.LogLevel))}
	exit := c.Exit
	if exit == nil {
		exit = func(error) { os.Exit(1) } //nolint:forbidigo // two owners would be worse, see Config.Exit
	}
	// New has no context, so the lookups of NewWith cannot be cancelled.
	n.process, err = process.NewWith(context.Background(), &settings, version.Version, n.log, &process.App{
		Handler: c.Handler, Streams: c.StreamBodies, Hook: c.hookFunc(),
		OnOverdue: func(why error) {
			n.log.Error().Err(why).Msg("handler did not return, process ends")
			exit(why)
		},
	})
	if err != nil {
		return nil, err
	}
	if c.hasCallbacks() {
		node := n.process.Node()
		n.callbacks = newCallbacks(&c, clusterView{presentNodes: node.PresentNodes, epochs: node.MapEpochs, health: node.ClusterState}, n.log)
	}
	return n, nil
}

// Run runs the node until ctx ends and the node has left the cluster, as `shardway run` does after
// SIGTERM, or until the node fails. It returns after the last handler, and after the last callback or 5 s later. It must
// be called once.
func (n *Node) Run(ctx context.Context) error {
	if n.callbacks != nil {
		stop := n.callbacks.start(context.WithoutCancel(ctx), n.process.Node().Events())
		defer stop()
	}
	return n.process.Run(ctx)
}

// ID returns the node ID.
func (n *Node) ID() string { return n.process.Node().ID() }

// Addr returns the address of the port for app traffic.
func (n *Node) Addr() net.Addr { return n.process.Addr() }

// Ready returns nil if the node serves requests now, and otherwise the reason, as /readyz does.
func (n *Node) Ready() error {
	select {
	case <-n.process.Node().Started():
		return n.process.Node().Ready()
	default:
		return errors.New("embed: Run has not started the node yet")
	}
}

// Owner returns the ID of the node that owns the shard of a key, according to the last map that
// this node has applied. It returns "" if the shard is orphaned or there is no map. The result can
// be outdated, because only the lease of the owner proves ownership. To be certain, send a
// request.
func (n *Node) Owner(key string) string { return string(n.process.Node().Place([]byte(key)).Owner) }

// OwnerOf returns the ID of the node that owns a shard, according to the same map as Owner. It returns "" if the shard is
// orphaned or does not exist: shards have the numbers from 0 to Config.Shards - 1.
func (n *Node) OwnerOf(shard int) string { return string(n.process.Node().OwnerOf(shard)) }

// StandbysOf returns the IDs of the nodes that take over a shard after a failure of its owner, the next owner first,
// according to the same map as Owner. There are up to Config.Replicas of them. It returns nil for a shard without an
// owner, for a shard that does not exist, and until Run has started the node.
func (n *Node) StandbysOf(shard int) []string {
	select {
	case <-n.process.Node().Started():
	default:
		return nil
	}
	var ids []string
	for _, id := range n.process.Node().StandbysOf(shard) {
		ids = append(ids, string(id))
	}
	return ids
}

// IsOwner reports whether this node serves a shard now: it owns the shard, has a lease, and the shard is not moving away.
// The result can be outdated when the caller uses it, for example after a pause of the process, so it does not replace
// fencing by the epoch. It is meant for work outside of requests, such as timers for the keys of a shard. With hooks, the
// result can be true before Acquire has returned for the shard. It is false for a shard that does not exist.
func (n *Node) IsOwner(shard int) bool { return n.process.Node().IsOwner(shard) }

// Epoch returns the ownership epoch of the shard of a key according to the same map, or zero
// without an owner. It increases exactly when the owner changes. To fence a write of a handler,
// use the epoch of its request (Shardway-Epoch).
func (n *Node) Epoch(key string) uint64 { return n.process.Node().Place([]byte(key)).Epoch }

// ShardOf returns the shard number of a key.
func (n *Node) ShardOf(key string) int { return int(n.process.Node().Place([]byte(key)).Shard) }
