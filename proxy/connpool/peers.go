package connpool

import (
	"sync"
	"time"
)

// Peers contains a pool for each node to which requests were forwarded.
type Peers struct {
	NewPool func(node string) *Pool // creates the pool of a node
	pools   sync.Map                // node id → *Pool
}

// Pool returns the pool of a node, and creates it if there is none.
func (p *Peers) Pool(node string) *Pool {
	if v, ok := p.pools.Load(node); ok {
		return v.(*Pool) //nolint:errcheck,forcetypeassert // pools contains nothing else
	}
	v, _ := p.pools.LoadOrStore(node, p.NewPool(node))
	return v.(*Pool) //nolint:errcheck,forcetypeassert // pools contains nothing else
}

// SetPeerProcess sets the current process of a node in its pool, if it has one.
func (p *Peers) SetPeerProcess(node string, boot, nonce uint64) {
	if v, ok := p.pools.Load(node); ok {
		v.(*Pool).setPeerProcess(boot, nonce) //nolint:errcheck,forcetypeassert // pools contains nothing else
	}
}

// RenewWhere closes the idle connections to the nodes for which match returns true.
func (p *Peers) RenewWhere(match func(node string) bool) {
	p.Each(func(pool *Pool) {
		if match(pool.opts.Node) {
			pool.Renew()
		}
	})
}

// Each calls f for each pool.
func (p *Peers) Each(f func(*Pool)) {
	p.pools.Range(func(_, v any) bool {
		f(v.(*Pool)) //nolint:errcheck,forcetypeassert // pools contains nothing else
		return true
	})
}

// Renew replaces all pools. It closes idle connections immediately, and connections in use when
// they are returned. Later requests use new pools.
func (p *Peers) Renew() {
	p.pools.Range(func(node, v any) bool {
		p.pools.CompareAndDelete(node, v)
		v.(*Pool).Close() //nolint:errcheck,forcetypeassert // pools contains nothing else
		return true
	})
}

// CloseIdleOlderThan closes connections that have been idle for longer than age.
func (p *Peers) CloseIdleOlderThan(age time.Duration) {
	p.Each(func(pool *Pool) { pool.CloseIdleOlderThan(age, false) })
}

// Close closes all pools.
func (p *Peers) Close() { p.Each((*Pool).Close) }
