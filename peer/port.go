package peer

import (
	"context"
	"net"
	"sync/atomic"
)

// Handler serves one accepted stream and owns it: it must close c or pass it to another owner. ctx
// ends when Serve ends; the port then also closes c, and the handler must return soon.
type Handler func(ctx context.Context, c *Conn)

// Port is the end of one node for all traffic between nodes.
type Port struct {
	options    Options
	boot       atomic.Uint64       // boot that this node reports; see SetBoot
	handlers   [kinds]Handler      // by Kind; fixed before Serve, nil means that streams are refused
	open       [kinds]atomic.Int64 // number of accepted open streams, by Kind
	counts     counters            // counters that Stats reports
	logLimiter logLimiter
	poller     readPoller // runs while Serve runs
}

// New returns a Port that is not serving.
func New(options Options) *Port {
	p := &Port{options: options.withDefaults()}
	p.boot.Store(options.Boot)
	return p
}

// Handle registers the handler for the streams of a kind. It must be called before Serve. Streams
// of other kinds are refused.
func (p *Port) Handle(kind Kind, handler Handler) {
	p.handlers[kind] = handler
}

// SetBoot changes the boot that this node reports on new streams. A node calls it after another
// node has reported a higher boot of its disk.
func (p *Port) SetBoot(boot uint64) {
	p.boot.Store(boot)
}

// self returns the current identity of this node.
func (p *Port) self() Identity {
	return Identity{Cluster: p.options.Cluster(), Node: p.options.Node, Disk: p.options.Disk, Boot: p.boot.Load(), Record: p.options.DiskRecords.LocalRecord()}
}

// Serve accepts streams on ln until ctx ends, which returns nil, or ln fails, which returns the
// error. In both cases it closes ln and all streams that it accepted, and returns after the last
// handler. Serve may be called for several listeners at the same time.
func (p *Port) Serve(ctx context.Context, ln net.Listener) error {
	return newServer(p, ln).run(ctx)
}
