package proxy

import (
	"sync"
	"time"
)

// peers contains a pool for each node to which requests were forwarded.
type peers struct {
	newPool func(node string) *pool // creates the pool of a node
	pools sync.Map                // node id → *pool
}

// pool returns the pool of a node.
func (p *peers) pool(node string) *pool {
	if v, ok := p.pools.Load(node); ok {
		return v.(*pool) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	v, _ := p.pools.LoadOrStore(node, p.newPool(node))
	return v.(*pool) //nolint:errcheck,forcetypeassert // as above
}

// follow sets the present process of a node in its pool, if it has one.
func (p *peers) follow(node string, boot, nonce uint64) {
	if v, ok := p.pools.Load(node); ok {
		v.(*pool).setPeerProcess(boot, nonce) //nolint:errcheck,forcetypeassert // as above
	}
}

// renewTo closes the idle connections to the nodes for which match returns true.
func (p *peers) renewTo(match func(node string) bool) {
	p.each(func(pool *pool) {
		if match(pool.opts.Node) {
			pool.renew()
		}
	})
}

// each calls f for each pool.
func (p *peers) each(f func(*pool)) {
	p.pools.Range(func(_, v any) bool {
		f(v.(*pool)) //nolint:errcheck,forcetypeassert // as above
		return true
	})
}

// renew replaces all pools. It closes idle connections immediately, and connections in use when
// they are returned. Later requests use new pools.
func (p *peers) renew() {
	p.pools.Range(func(node, v any) bool {
		p.pools.CompareAndDelete(node, v)
		v.(*pool).close() //nolint:errcheck,forcetypeassert // as above
		return true
	})
}

func (p *peers) reap(age time.Duration) {
	p.each(func(pool *pool) { pool.closeIdleOlderThan(age, false) })
}
func (p *peers) closeIdle() { p.each((*pool).close) }
