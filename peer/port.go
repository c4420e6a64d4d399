package peer

import (
	"context"
	"net"
	"sync/atomic"
)

// Handler serves one accepted stream and owns it: it closes c, or hands it to
// somebody who does. ctx ends when Serve is told to end, and then c is closed
// by the port too; a handler returns soon after.
type Handler func(ctx context.Context, c *Conn)

// Port is one node's end of everything between nodes.
type Port struct {
	o    Options
	boot atomic.Uint64
	// handlers are indexed by Kind and fixed before Serve.
	handlers [kinds]Handler
	// open counts the accepted streams of each kind that are not closed.
	open [kinds]atomic.Int64
	// counts is what Stats reports.
	counts     counters
	logLimiter logLimiter
	poller     readPoller // taken while Serve runs
}

// New returns a Port that does nothing yet.
func New(o Options) *Port {
	p := &Port{o: o.withDefaults()}
	p.boot.Store(o.Boot)
	return p
}

// Handle registers h for the streams of kind. It must be called before Serve;
// kinds without a handler are refused.
func (p *Port) Handle(kind Kind, h Handler) {
	p.handlers[kind] = h
}

// SetBoot changes this node's boot for the streams opened from now on. A node
// that is told of a higher boot of itself takes the next one.
func (p *Port) SetBoot(boot uint64) {
	p.boot.Store(boot)
}

// self returns this node's identity as of now.
func (p *Port) self() Identity {
	return Identity{Cluster: p.o.Cluster(), Node: p.o.Node, Disk: p.o.Disk, Boot: p.boot.Load(), Record: p.o.Past.Own()}
}

// Serve accepts streams on ln until ctx ends (then it returns nil) or ln
// breaks (then it returns why). Either way it closes ln and every stream it
// accepted, and returns after the last handler. Several calls with different
// listeners may run at a time.
func (p *Port) Serve(ctx context.Context, ln net.Listener) error {
	return newServer(p, ln).run(ctx)
}
