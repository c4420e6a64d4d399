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
	node        *node.Node
	admin       *admin.Server
	listeners   listeners
	credentials *credentials
	log         zerolog.Logger

	appPort      *tlsListener
	accessLogs   accessLogs
	reloadStatus reloadStatus
	lameDuck     atomic.Int64   // nanoseconds
	initial      *config.Config // settings at the start
	applied      *config.Config // settings of the last successful reload
}

// Node returns the node.
func (p *Process) Node() *node.Node { return p.node }

// Addr returns the address of the port for app traffic.
func (p *Process) Addr() net.Addr { return p.listeners.app.Addr() }

// Run runs the node until ctx ends and the node has left the cluster, or until the node fails. The
// admin ports respond until the node has stopped, so that its last states are visible.
func (p *Process) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	adminCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	failed := make(chan error, 2) // one element for each admin port
	var wg sync.WaitGroup
	serve := func(f func(context.Context) error) {
		wg.Go(func() {
			select {
			case <-adminCtx.Done():
			case <-p.node.Started():
			}
			if err := f(adminCtx); err != nil {
				failed <- err
				cancel() // a node without its admin ports must not continue
			}
		})
	}
	serve(func(ctx context.Context) error { return p.admin.Serve(ctx, p.listeners.admin) })
	if p.listeners.probes != nil {
		serve(func(ctx context.Context) error {
			return admin.ServeProbes(ctx, p.listeners.probes, p.node.API(), p.log)
		})
	}
	wg.Go(func() { p.credentials.watchFiles(adminCtx, p.node, p.admin) })
	wg.Go(func() { p.appPort.watchFiles(adminCtx) })
	wg.Go(func() { p.accessLogs.run(adminCtx) })
	err := p.node.Run(ctx)
	stop()
	wg.Wait()
	close(failed)
	for broken := range failed {
		err = errors.Join(err, broken)
	}
	if err == nil {
		p.log.Info().Msg("stopped") // the caller logs an error
	}
	return err
}
