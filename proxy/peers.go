package proxy

import (
	"sync"
	"time"
)

// peers holds a pool for each node that requests were forwarded to.
type peers struct {
	fresh func(node string) *pool // makes one
	pools sync.Map                // node id → *pool
}

// pool returns the pool of a node.
func (p *peers) pool(node string) *pool {
	if v, ok := p.pools.Load(node); ok {
		return v.(*pool) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	v, _ := p.pools.LoadOrStore(node, p.fresh(node))
	return v.(*pool) //nolint:errcheck,forcetypeassert // as above
}

// follow tells the pool of a node, if there is one, which its process is.
func (p *peers) follow(node string, boot, nonce uint64) {
	if v, ok := p.pools.Load(node); ok {
		v.(*pool).setPeerProcess(boot, nonce) //nolint:errcheck,forcetypeassert // as above
	}
}

// renewTo closes the idle connections to nodes for which match says so.
func (p *peers) renewTo(match func(node string) bool) {
	p.each(func(pool *pool) {
		if match(pool.node) {
			pool.renew()
		}
	})
}

// each calls f for every pool.
func (p *peers) each(f func(*pool)) {
	p.pools.Range(func(_, v any) bool {
		f(v.(*pool)) //nolint:errcheck,forcetypeassert // as above
		return true
	})
}

// renew lets every connection go: idle ones at once, the others when they come
// back. Those made from now on are in pools of their own.
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
