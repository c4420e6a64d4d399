package process

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/config"
	"shardway/node"
)

// Process is a node with its admin ports.
type Process struct {
	node   *node.Node
	admin  *admin.Server
	listen listeners
	guards *guards
	log    zerolog.Logger

	front    *front
	journal  journal
	reloads  reloads
	lameDuck atomic.Int64   // nanoseconds
	started  *config.Config // what the process was started with
	live     *config.Config // what was taken over last
}

// Node returns the node, to be asked.
func (p *Process) Node() *node.Node { return p.node }

// Addr returns where app traffic comes in.
func (p *Process) Addr() net.Addr { return p.listen.app.Addr() }

// Run runs the node until ctx ends and it has left, or until it fails. The admin
// ports answer until the node has stopped: its last states are worth seeing.
func (p *Process) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	failed := make(chan error, 2) // one for each admin port
	var wg sync.WaitGroup
	serve := func(f func(context.Context) error) {
		wg.Go(func() {
			select {
			case <-base.Done():
			case <-p.node.Started():
			}
			if err := f(base); err != nil {
				failed <- err
				cancel() // a node that nobody can look into shall not go on
			}
		})
	}
	serve(func(ctx context.Context) error { return p.admin.Serve(ctx, p.listen.admin) })
	if p.listen.probes != nil {
		serve(func(ctx context.Context) error { return admin.ServeProbes(ctx, p.listen.probes, p.node, p.log) })
	}
	wg.Go(func() { p.guards.run(base, p.node, p.admin) })
	wg.Go(func() { p.front.run(base) })
	wg.Go(func() { p.journal.run(base) })
	err := p.node.Run(ctx)
	stop()
	wg.Wait()
	close(failed)
	for broken := range failed {
		err = errors.Join(err, broken)
	}
	if err == nil {
		p.log.Info().Msg("stopped") // else the caller says why
	}
	return err
}
