package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"shardway/e2e/kit/history"
	"shardway/node"
	"shardway/node/hooks"
	"shardway/shardmap"
)

const (
	// holdGrace is the hold grace of every other node of a storm. holdsUpTo is the longest time after which such a node is started again,
	// in time or late.
	holdGrace = 4 * time.Second
	holdsUpTo = 6 * time.Second
	// releaseTimeout and acquireTimeout are the timeouts of nodes whose apps have hooks.
	releaseTimeout, acquireTimeout = time.Second, time.Second
)

// keeper is the state that an app with hooks holds. The zero value holds nothing and works.
type keeper struct {
	mu   sync.Mutex
	held map[shardmap.Shard]uint64 // by ownership epoch
	seqs map[string]map[shardmap.Shard]uint64
	ill  string // "", "fails", "hangs"
	well chan struct{}
}

// holds reports whether a request of a shard may run.
func (k *keeper) holds(s shardmap.Shard, epoch uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[s] == epoch
}

// forget drops the state, as a new process of the app does.
func (k *keeper) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.held)
	clear(k.seqs)
}

// sicken makes all hooks fail or block. "" makes them work again.
func (k *keeper) sicken(ill string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ill != "" {
		close(k.well)
	}
	k.ill, k.well = ill, make(chan struct{})
}

// answer performs a hook call and returns the HTTP status. gone is closed with the connection.
func (k *keeper) answer(req *http.Request, gone <-chan bool) (status int) {
	var c struct {
		Seq    uint64
		Disk   string
		Shards []struct {
			Shard uint32
			Epoch uint64
		}
	}
	if json.NewDecoder(req.Body).Decode(&c) != nil {
		return http.StatusBadRequest
	}
	k.mu.Lock()
	ill, well := k.ill, k.well
	k.mu.Unlock()
	switch ill {
	case "fails":
		return http.StatusInternalServerError
	case "hangs":
		select {
		case <-well:
		case <-gone:
		}
		return http.StatusServiceUnavailable
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		k.held, k.seqs = map[shardmap.Shard]uint64{}, map[string]map[shardmap.Shard]uint64{}
	}
	if k.seqs[c.Disk] == nil {
		k.seqs[c.Disk] = map[shardmap.Shard]uint64{}
	}
	for _, h := range c.Shards {
		s := shardmap.Shard(h.Shard)
		if c.Seq < k.seqs[c.Disk][s] {
			continue
		}
		k.seqs[c.Disk][s] = c.Seq
		switch hook := strings.TrimPrefix(req.URL.Path, hookPath+"/"); {
		case hook == "acquire":
			k.held[s] = h.Epoch
		case k.held[s] <= h.Epoch:
			delete(k.held, s)
		}
	}
	return http.StatusNoContent
}

// hookPath is the path of the apps' hooks.
const hookPath = "/_state"

// hooked makes the node of an app call its hooks.
func (a *app) hooked(o *node.Options, host interface {
	Dial(ctx context.Context, addr string) (net.Conn, error)
},
) {
	o.Hooks = &hooks.HTTP{
		Dial: func(ctx context.Context) (net.Conn, error) { return host.Dial(ctx, a.host.Addr(9000)) },
		Host: "app", Path: hookPath, Disk: o.Dir.Disk(),
	}
	o.ReleaseTimeout, o.AcquireTimeout = releaseTimeout, acquireTimeout
}

// keeping sets whether all apps keep state. If they do, every other node restarts in place.
func (s *storm) keeping(yes bool) {
	if s.hooks = yes; yes {
		s.witness.rules.ReleaseTimeout = releaseTimeout
	}
}

// keptShards are the strikes that need apps with state. They are drawn like all others.
var keptShards = []strike{
	{"restart in place", 3, func(s *storm, p *process) {
		p.stop()
		s.live(s.upTo(holdsUpTo))
		s.revive(p)
	}},
	{"app restart", 3, func(s *storm, p *process) {
		a := s.apps[p.name]
		well := s.witness.restarts(p.name)
		a.restart()
		well()
	}},
	{"hooks fail", 2, func(s *storm, p *process) { s.sicken(p, "fails") }},
	{"hooks hang", 1, func(s *storm, p *process) { s.sicken(p, "hangs") }},
}

// sicken makes the hooks of an app fail for a while. Requests of its shards wait.
func (s *storm) sicken(p *process, ill string) {
	k := s.apps[p.name].keeps
	if k == nil {
		s.logf("  it has none")
		return
	}
	k.sicken(ill)
	well := s.witness.hurt(history.AppDown, p.name)
	s.later(s.upTo(3*time.Second), func() { k.sicken(""); well() })
}

// restarts records that an app has ended, until again is called.
func (w *witness) restarts(node string) (again func()) {
	return w.done(history.Fault{Kind: history.AppDown, Node: node, LatestExit: now()})
}

// restart ends the app's process, and starts another one.
func (a *app) restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.conns {
		_ = c.Close()
	}
	clear(a.conns)
	if a.keeps != nil {
		a.keeps.forget()
	}
}

// kept checks that each app holds exactly the shards of its node, under their current epochs.
func (s *storm) kept() error {
	m := s.committed()
	for sh := range shardmap.Shard(shards) {
		if a := s.apps[string(m.Owner(sh))]; a.keeps != nil && !a.keeps.holds(sh, uint64(m.OwnedSince(sh))) {
			return fmt.Errorf("the app of %s has not acquired shard %d under %d", a.node, sh, m.OwnedSince(sh))
		}
	}
	return nil
}
